/* SPDX-License-Identifier: MIT */
/* The lanes of threads, the places, the threads' sums. An event is [begin, ns, place, thread,
 * holder, held_ns, is_since]. */
'use strict';

const element = (id) => document.getElementById(id);
const KINDS = ['mutex', 'read', 'write', 'cond', 'sem', 'park', 'held'];
const ROW = 18, AXIS = 24, LABEL = 190, MOST_ROWS = 300;
/* Okabe and Ito's, which the colour-blind can tell apart, lighter. */
const COLOURS = ['#7fb3d9', '#f2c14e', '#d7a3c0', '#b0a8e0', '#e0a07a', '#9fd8e8', '#c9bb7a'];
const canvas = element('lanes'), c = canvas.getContext('2d');
let meta, p, lanes = [], events = [], chosen = -1, from = 0, to = 1, whole = [0, 1], drag = null;

function duration(ns) {
	for (const [unit, name] of [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms']])
		if (ns < 1e4 * unit)
			return `${(ns / unit).toFixed(unit === 1 ? 0 : 1)} ${name}`;
	return `${(ns / 1e9).toFixed(1)} s`;
}

function add(parent, name, text, attributes) {
	const e = document.createElement(name);

	e.textContent = text;
	Object.assign(e, attributes);
	parent.append(e);
	return e;
}

const style = (name) => getComputedStyle(document.body).getPropertyValue(name);
const width = () => canvas.clientWidth - LABEL - 8;
const x_of = (t) => LABEL + (t - from) / (to - from) * width();
const time_of = (x) => from + (Math.max(x, LABEL) - LABEL) / width() * (to - from);
const colour = (place) => COLOURS[place % COLOURS.length];

/* ---- lanes ---- */

function draw_axis() {
	const raw = (to - from) / Math.max(2, width() / 110), power = 10 ** Math.floor(Math.log10(raw));
	const step = power * [1, 2, 5, 10].find((n) => n * power >= raw);

	for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
		c.fillStyle = style('--line');
		c.fillRect(x_of(t), AXIS - 4, 1, canvas.clientHeight);
		c.fillStyle = style('--soft');
		c.fillText(`${(t / 1e9).toFixed(Math.max(0, 9 - Math.floor(Math.log10(step))))} s`.replace(/0+ s/, ' s')
			.replace('. s', ' s'), x_of(t) + 3, AXIS / 2);
	}
}

function draw() {
	const ratio = devicePixelRatio || 1;

	canvas.style.height = `${AXIS + ROW * Math.max(1, lanes.length)}px`;
	canvas.width = Math.round(canvas.clientWidth * ratio);
	canvas.height = Math.round(canvas.clientHeight * ratio);
	c.scale(ratio, ratio);
	c.font = '12px system-ui, sans-serif';
	c.textBaseline = 'middle';
	draw_axis();
	lanes.forEach((l, i) => {
		c.fillStyle = style('--ink');
		c.fillText(`${l.tid} ${l.name}`, 6, AXIS + (i + .5) * ROW, LABEL - 12);
		for (const e of l.events) {
			const left = Math.max(x_of(e[0]), LABEL), right = Math.min(x_of(e[0] + e[1]), LABEL + width());

			if (right < LABEL || left > LABEL + width())
				continue;
			c.fillStyle = colour(e[2]);
			c.fillRect(left, AXIS + i * ROW + 2, Math.max(1, right - left), ROW - 4);
		}
	});
	if (drag) {
		c.globalAlpha = .15;
		c.fillStyle = style('--ink');
		c.fillRect(drag[0], AXIS, drag[1] - drag[0], canvas.clientHeight);
		c.globalAlpha = 1;
	}
	element('shown').textContent = `${(from / 1e9).toFixed(6)} to ${(to / 1e9).toFixed(6)} s`;
}

function set_window(a, b) {
	[from, to] = b - a < 1000 ? [a, a + 1000] : [a, b];
	draw();
}

function show_tip(e) {
	const l = lanes[Math.floor((e.offsetY - AXIS) / ROW)], tip = element('tip'), at = time_of(e.offsetX);
	const near = (to - from) / width();
	const v = e.offsetX > LABEL && l && l.events.find((w) => w[0] - near <= at && w[0] + w[1] + near >= at);

	tip.hidden = !v;
	if (!v)
		return;
	const place = p.places[v[2]];
	tip.textContent = `${place.kind}: ${duration(v[1])}` +
		(v[4] ? `\nheld by thread ${v[4]}` + (v[5] ? `, ${v[6] ? '' : 'at least '}${duration(v[5])} before` : '') : '') +
		`\n${place.stack.join('\n')}`;
	tip.style.left = `${Math.min(e.clientX + 12, innerWidth - 360)}px`;
	tip.style.top = `${e.clientY + 14}px`;
}

/* ---- tables ---- */

function show_places(kind) {
	const table = element('places');

	table.replaceChildren();
	p.places.map((q, i) => [q, i]).filter(([q]) => !kind || q.kind === kind)
		.sort((a, b) => KINDS.indexOf(a[0].kind) - KINDS.indexOf(b[0].kind) || b[0].total_ns - a[0].total_ns)
		.slice(0, MOST_ROWS).forEach(([q, i]) => {
			const row = add(table, 'tr', '', {className: i === chosen ? 'chosen' : ''});
			const name = add(row, 'td', ''), met = Object.entries(q.holders).sort((a, b) => b[1] - a[1]);

			add(name, 'span', '', {className: 'swatch'}).style.background = colour(i);
			name.append(q.kind);
			for (const text of [q.count, duration(q.total_ns), duration(q.p50_ns), duration(q.p99_ns),
				duration(q.longest_ns)])
				add(row, 'td', text, {className: 'number'});
			add(row, 'td', q.locks.length === 1 ? q.locks[0].lock : `${q.locks.length} of them`);
			add(row, 'td', met.slice(0, 3).map(([tid, n]) => `${tid}: ${n}`).join(', '));
			add(row, 'td', q.stack.join('\n'), {className: 'stack'});
			row.onclick = () => {
				chosen = chosen === i ? -1 : i;
				show();
			};
		});
}

function show_threads() {
	const table = element('threads');

	table.replaceChildren();
	for (const t of p.threads.slice(0, MOST_ROWS)) {
		const row = add(table, 'tr', '');

		add(row, 'td', t.tid, {className: 'number'});
		add(row, 'td', t.name);
		for (const kind of KINDS)
			add(row, 'td', t[kind] ? `${t[kind].count}: ${duration(t[kind].total_ns)}` : '', {className: 'number'});
	}
}

function show() {
	const kind = element('kind').value, of = new Map(p.threads.map((t) => [t.index, []]));

	events = p.events.filter((e) => (!kind || p.places[e[2]].kind === kind) && (chosen < 0 || e[2] === chosen));
	for (const e of events)
		of.get(e[3])?.push(e);
	lanes = p.threads.map((t) => ({...t, events: of.get(t.index)})).filter((l) => l.events.length)
		.slice(0, MOST_ROWS);
	show_places(kind);
	draw();
}

function choose() {
	p = meta.processes[element('process').value];
	chosen = -1;
	whole = p.events.reduce(([a, b], e) => [Math.min(a, e[0]), Math.max(b, e[0] + e[1])], [Infinity, 1]);
	if (whole[0] === Infinity)
		whole = [0, 1];
	[from, to] = whole;
	element('summary').textContent = `${p.program}: ${p.threads.length} threads; the last ${p.events.length} of ` +
		`${p.events_ever} waits and releases have bars. nearcpu ${meta.version}`;
	element('notices').textContent = p.lost ? `${p.lost} waits are not recorded: too many call stacks` : '';
	show_threads();
	show();
}

function listen() {
	element('process').onchange = choose;
	element('kind').onchange = () => {
		chosen = -1;
		show();
	};
	element('all').onclick = () => set_window(...whole);
	element('out').onclick = () => set_window(from - (to - from) / 2, to + (to - from) / 2);
	window.onresize = draw;
	canvas.onmousemove = (e) => {
		show_tip(e);
		if (drag) {
			drag[1] = e.offsetX;
			draw();
		}
	};
	canvas.onmouseleave = () => element('tip').hidden = true;
	canvas.onmousedown = (e) => drag = [e.offsetX, e.offsetX];
	window.onmouseup = () => {
		const d = drag && drag.slice().sort((a, b) => a - b);

		drag = null;
		if (d && d[1] - d[0] > 3)
			set_window(time_of(d[0]), time_of(d[1]));
		else if (d)
			draw();
	};
}

window.onerror = (message) => {
	element('error').hidden = false;
	element('error').textContent = `This page is damaged: ${message}`;
};
meta = JSON.parse(element('description').textContent);
if (!meta.processes.length) {
	element('error').hidden = true;
	add(document.body, 'p', 'No process has waited.', {id: 'nothing'});
} else {
	meta.processes.forEach((q, i) => add(element('process'), 'option', `${q.pid} ${q.program}`, {value: i}));
	element('error').hidden = true;
	element('page').hidden = false;
	listen();
	choose();
}
