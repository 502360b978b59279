/* SPDX-License-Identifier: MIT */
/* The lanes, which a canvas shows; the tables; how the page begins. */
'use strict';

const ROW = 20, AXIS = 26, LEAST_WIDTH = 100, MOST_ROWS = 1000;
const canvas = element('lanes'), c = canvas.getContext('2d');
const extent = {from: 0, to: 1};
let shown = {...extent}, lanes = [], drag = null, label_width = 120;

/* ---- drawing ---- */

const style = (name) => getComputedStyle(document.body).getPropertyValue(name);
const top_lane = () => element('scroll').scrollTop / ROW;
const chart_width = () => canvas.clientWidth - label_width - 12;
const x_of = (t) => label_width + (t - shown.from) / (shown.to - shown.from) * chart_width();
const time_of = (x) => shown.from + (x - label_width) / chart_width() * (shown.to - shown.from);
const rows_shown = () => Math.floor((canvas.clientHeight - AXIS) / ROW);

/* An id is no judgement: no red beside green. The colour-blind can tell these apart (Okabe and Ito's,
 * lighter, as text in black is on them). */
const COLOURS = ['#7fb3d9', '#f2c14e', '#d7a3c0', '#b0a8e0', '#e0a07a', '#9fd8e8', '#c9bb7a'];

function colour(lane, i) {
	const n = lane.kind === 'thread' ? cid[i] : thread[i];

	return n < 0 ? style('--dim') : COLOURS[n % COLOURS.length];
}

/* Calls visit(k, left, right) for the spans of the window, of those in one pixel for the first. */
function each_span({ids, latest}, visit) {
	let k = first(ids.length, (j) => latest[j] > shown.from);

	while (k < ids.length && begin[ids[k]] < shown.to) {
		const left = Math.max(x_of(begin[ids[k]]), label_width);
		const right = Math.min(Math.max(x_of(end[ids[k]]), left + 1), label_width + chart_width());
		const limit = time_of(left + 1);

		visit(k, left, right);
		k = right - left > 1 ? k + 1 : Math.max(k + 1, first(ids.length, (j) => begin[ids[j]] >= limit));
	}
}

function draw_lane(lane, y) {
	const height = (ROW - 4) / lane.levels;

	each_span(lane, (k, left, right) => {
		const i = lane.ids[k], top = y + 2 + lane.level[k] * height;

		c.fillStyle = colour(lane, i);
		c.fillRect(left, top, right - left, height);
		if (right - left < 60 || height < 10)
			return;
		c.fillStyle = '#000';
		c.fillText(lane.kind === 'thread' ? `cid ${known(cid[i])}` :
			`${meta.lanes[thread[i]][0]}`, left + 4, y + ROW / 2);
	});
}

function draw_axis() {
	const width = shown.to - shown.from, raw = width / Math.max(2, chart_width() / 110);
	const power = 10 ** Math.floor(Math.log10(raw));
	const step = power * [1, 2, 5, 10].find((n) => n * power >= raw);
	const digits = Math.max(0, 6 - Math.floor(Math.log10(step) + .01));

	for (let t = Math.ceil(shown.from / step) * step; t <= shown.to; t += step) {
		c.fillStyle = style('--line');
		c.fillRect(x_of(t), AXIS - 4, 1, canvas.clientHeight);
		c.fillStyle = style('--soft');
		c.fillText(`${(t / 1e6).toFixed(digits)} s`, x_of(t) + 3, AXIS / 2);
	}
}

function draw_rows() {
	const at = top_lane(), last = Math.min(lanes.length, at + rows_shown() + 1);

	c.save();
	c.beginPath();
	c.rect(0, AXIS, canvas.clientWidth, canvas.clientHeight);
	c.clip();
	for (let l = Math.floor(at); l < last; l++) {
		const y = AXIS + (l - at) * ROW;

		if (l % 2 === 0) {
			c.globalAlpha = .5;
			c.fillStyle = style('--panel');
			c.fillRect(0, y, canvas.clientWidth, ROW);
			c.globalAlpha = 1;
		}
		draw_lane(lanes[l], y);
		c.fillStyle = style('--ink');
		c.fillText(lanes[l].name, 6, y + ROW / 2, label_width - 10);
	}
	c.restore();
}

function draw() {
	const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();

	canvas.width = Math.round(box.width * ratio);
	canvas.height = Math.round(box.height * ratio);
	c.scale(ratio, ratio);
	c.font = '12px system-ui, sans-serif';
	c.textBaseline = 'middle';
	draw_axis();
	draw_rows();
	if (drag && drag.to !== drag.from) {
		c.globalAlpha = .15;
		c.fillStyle = style('--ink');
		c.fillRect(drag.from, AXIS, drag.to - drag.from, canvas.clientHeight);
		c.globalAlpha = 1;
	}
	element('shown').textContent = `${seconds(shown.from)} to ${seconds(shown.to)} s, ` +
		plural(lanes.length, 'lane');
}

/* ---- the window ---- */

function set_window(from, to) {
	const most = extent.to - extent.from, width = Math.min(Math.max(to - from, LEAST_WIDTH), most);

	from = Math.min(Math.max((from + to - width) / 2, extent.from), extent.to - width);
	shown = {from, to: from + width};
	draw();
}

const show_all = () => set_window(extent.from, extent.to);
const zoom = (factor, at = (shown.from + shown.to) / 2) =>
	set_window(at - (at - shown.from) * factor, at + (shown.to - at) * factor);
const move = (part) => set_window(shown.from + part * (shown.to - shown.from),
	shown.to + part * (shown.to - shown.from));

/* The lanes that are chosen, and the room for them. */
function choose() {
	const kind = element('kind').value, process = element('process').value;

	lanes = every.filter((l) => (!kind || l.kind === kind) &&
		(process === '' || l.kind === 'CPU' || l.process === Number(process)));
	const room = Math.floor((innerHeight * .65 - AXIS) / ROW);
	const rows = Math.max(1, Math.min(lanes.length, room)), scroll = element('scroll');

	scroll.scrollTop = 0;
	c.font = '12px system-ui, sans-serif';
	label_width = Math.min(300, scroll.clientWidth / 3, 20 + lanes.slice(0, 2000)
		.reduce((most, l) => Math.max(most, c.measureText(l.name).width), 60));
	canvas.style.width = '100%';
	canvas.style.height = rows * ROW + AXIS + 'px';
	scroll.style.maxHeight = rows * ROW + AXIS + 2 + 'px';
	element('rest').style.height = (lanes.length - rows) * ROW + 'px';
	draw();
}

/* The span under the mouse, or -1. */
function span_at(x, y) {
	const lane = lanes[Math.floor(top_lane() + (y - AXIS) / ROW)];
	let found = -1;

	if (y >= AXIS && x >= label_width && lane)
		each_span(lane, (k, left, right) => {
			if (x >= left - 1 && x <= right + 1)
				found = lane.ids[k];
		});
	return found;
}

function show_tip(e) {
	const i = drag ? -1 : span_at(e.offsetX, e.offsetY), tip = element('tip');

	tip.hidden = i < 0;
	if (i < 0)
		return;
	tip.textContent = `${thread_name(thread[i])}\ncid ${known(cid[i])}, CPU ${known(cpu[i])}, ` +
		`node ${known(node[i])}\n${seconds(begin[i])} to ${seconds(end[i])} s`;
	tip.style.left = Math.min(e.clientX + 12, innerWidth - 320) + 'px';
	tip.style.top = e.clientY + 16 + 'px';
}

/* ---- begin ---- */

function add(parent, name, text, attributes) {
	const e = document.createElement(name);

	e.textContent = text;
	Object.assign(e, attributes);
	parent.append(e);
	return e;
}

function add_row(table, cells, tag = 'td') {
	const row = add(table, 'tr', '');

	for (const cell of cells)
		add(row, tag, cell, {className: typeof cell === 'number' || /^\d+ [KMGTPE]?i?B$/.test(cell) ?
			'number' : ''});
}

function describe() {
	const several = meta.processes_ever > 1, how = meta.signal ? `killed by signal ${meta.signal}` :
		`exit status ${meta.exit_status}`;
	const copies = (n) => [n ?? 'unknown', n === null ? '' : bytes_text(n * meta.copy_bytes)];

	document.title = `${meta.program[0]}: nearcpu ids`;
	element('summary').textContent = `${meta.program.map((w) => w ?? '?').join(' ')}: ${how}. ` +
		`${meta.wall_s.toFixed(3)} s; ${plural(meta.processes_ever, 'process', 'processes')}; ` +
		`${plural(meta.threads_ever, 'thread')}, at most ${meta.threads_at_most} at a time; ` +
		`${plural(meta.samples, 'sample')}. nearcpu ${meta.version}`;
	element('notices').textContent = meta.notices.join('\n');
	add_row(element('data_head'), [`copies of ${bytes_text(meta.copy_bytes)}`, 'the largest process',
		'', ...several ? ['all, at one moment', ''] : []], 'th');
	for (const key in meta.names)
		add_row(element('data'), [meta.names[key], ...copies(meta.copies[key].largest_process),
			...several ? copies(meta.copies[key].all_at_one_moment) : []]);
	meta.processes.forEach((p, i) => {
		if (i < MOST_ROWS)
			add_row(element('processes'), [p.pid, p.name, p.threads, p.at_most, ranges(p.cids),
				ranges(p.cpus), ranges(p.nodes)]);
		add(element('process'), 'option', process_name(i), {value: i});
	});
	if (meta.processes_ever > MOST_ROWS)
		add_row(element('processes'), ['', `and ${meta.processes_ever - MOST_ROWS} more`]);
}

function end_drag() {
	const {from, to} = drag;

	drag = null;
	if (Math.abs(to - from) > 3)
		set_window(time_of(Math.min(from, to)), time_of(Math.max(from, to)));
	else
		draw();
}

function listen() {
	const keys = {'+': () => zoom(.5), '-': () => zoom(2), 0: show_all,
		ArrowLeft: () => move(-.25), ArrowRight: () => move(.25)};
	const clamp = (x) => Math.min(Math.max(x, label_width), label_width + chart_width());

	element('in').onclick = keys['+'];
	element('out').onclick = keys['-'];
	element('all').onclick = show_all;
	element('kind').onchange = element('process').onchange = window.onresize = choose;
	element('scroll').onscroll = draw;
	document.onkeydown = (e) => {
		if (!/INPUT|SELECT/.test(e.target.tagName) && !e.ctrlKey && keys[e.key])
			keys[e.key]();
	};
	canvas.onmousedown = (e) => drag = {from: clamp(e.offsetX), to: clamp(e.offsetX)};
	canvas.onmouseleave = () => element('tip').hidden = true;
	canvas.ondblclick = show_all;
	canvas.onmousemove = show_tip;
	window.onmousemove = (e) => {
		if (!drag)
			return;
		drag.to = clamp(e.clientX - canvas.getBoundingClientRect().left);
		draw();
	};
	window.onmouseup = () => drag && end_drag();
	canvas.addEventListener('wheel', (e) => {
		if (!e.ctrlKey && !e.shiftKey && !e.deltaX)
			return;
		e.preventDefault();
		if (e.ctrlKey)
			zoom(2 ** (Math.sign(e.deltaY) / 2), time_of(clamp(e.offsetX)));
		else
			move(.1 * Math.sign(e.deltaX || e.deltaY));
	}, {passive: false});
}

function start() {
	decode();
	element('spans').remove();
	make_lanes();
	describe();
	extent.to = Math.max(LEAST_WIDTH, meta.wall_s * 1e6, end.reduce((a, b) => Math.max(a, b), 0));
	shown = {...extent};
	element('error').hidden = true;
	element('page').hidden = false;
	listen();
	choose();
}

window.onerror = (message) => {
	element('error').hidden = false;
	element('error').textContent = `This page is damaged: ${message}`;
};
start();
