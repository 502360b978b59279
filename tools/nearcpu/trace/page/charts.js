/* SPDX-License-Identifier: MIT */
/* The charts, which uPlot draws, and how the page begins. */
'use strict';

/* ---- charts ---- */

const tick_steps = [...Array(20).keys()].flatMap((e) => [1, 2, 5].map((n) => n * 10 ** e));

/* Labels of an axis in seconds, with as many digits as the distance of two needs. */
function second_labels(u, splits, axis, space, step) {
	const digits = Math.max(0, 9 - Math.floor(Math.log10(step) + .01));

	return splits.map((t) => (t / 1e9).toFixed(digits) + ' s');
}

const whole_numbers = (u, splits) => splits.map((n) => n % 1 ? '' : n);
const axis = (more) => ({stroke: () => style('--soft'), font: '12px system-ui, sans-serif',
	grid: {stroke: () => style('--line'), width: 1}, ticks: {show: false}, ...more});
const time_axis = (more) => axis({values: second_labels, incrs: tick_steps, space: 110, ...more});
const label_width = () => Math.min(180, 20 + 7 * Math.max(...lanes.map((l) => l.length)));

/* Drag and double click; the scales stay those of `shown`. */
function listen(u) {
	u.over.addEventListener('dblclick', show_all);
	u.over.addEventListener('mouseleave', () => element('tip').hidden = true);
}

function take_drag(u) {
	const {left, width} = u.select;

	if (width > 3)
		set_window(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
	u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
}

function overview_data() {
	const n = 400, width = (extent.to - extent.from) / n, x = [], y = [[], []];

	for (let b = 0; b <= n; b++)
		x.push(extent.from + b * width);
	[all, matches].forEach((index, s) => {
		let before = 0;

		for (let b = 1; index && b <= n; b++) {
			const at = lower(index.found, before, index.found.length, x[b]);

			y[s].push(at - before);
			before = at;
		}
		y[s].push(index && n ? 0 : null);
	});
	return [x, ...y];
}

function draw_window(u) {
	const {ctx: c, bbox: box} = u, left = u.valToPos(shown.from, 'x', true);
	const right = u.valToPos(shown.to, 'x', true);

	c.save();
	c.globalAlpha = .12;
	c.fillStyle = style('--ink');
	c.fillRect(box.left, box.top, left - box.left, box.height);
	c.fillRect(right, box.top, box.left + box.width - right, box.height);
	c.restore();
}

const steps = (name) => ({stroke: () => style(name), fill: () => style(name), width: 1,
	paths: uPlot.paths.stepped({align: 1}), points: {show: false}});

function make_charts() {
	const width = element('charts').clientWidth, drag = {drag: {x: true, y: false, setScale: false}};
	const rows = Math.max(3, Math.min(lanes.length, Math.floor(innerHeight * .45 / ROW)));

	overview = new uPlot({width: width - 18, height: 90, legend: {show: false}, padding: [8, 40, 0, 0],
		cursor: {...drag, y: false, points: {show: false}},
		scales: {x: {time: false, range: () => [extent.from, extent.to]}},
		axes: [time_axis({size: 26}),
			axis({size: label_width(), values: whole_numbers, space: 25})],
		series: [{}, steps('--dim'), steps('--ours')],
		hooks: {draw: [draw_window], setSelect: [take_drag], ready: [listen]},
	}, overview_data(), element('overview'));
	chart = new uPlot({width: width - 18, height: rows * ROW + 30, legend: {show: false},
		padding: [0, 40, 0, 0], cursor: {...drag, points: {show: false}},
		scales: {x: {time: false, range: () => [shown.from, shown.to]},
			y: {dir: -1, range: () => [top_lane, top_lane + rows]}},
		axes: [time_axis({side: 0, size: 30}),
			axis({size: label_width(), grid: {show: false}, splits: () => lanes.map((l, i) => i + .5)
				.slice(Math.floor(top_lane), Math.ceil(top_lane + rows)),
			values: (u, v) => v.map((i) => (lanes[Math.floor(i)] || '').slice(0, 24))})],
		series: [{}, {paths: () => null, points: {show: false}}],
		hooks: {draw: [draw_lanes], setSelect: [take_drag], setCursor: [show_tip], ready: [listen]},
	}, [[extent.from, extent.to], [0, 0]], element('lanes'));
	element('rest').style.height = (lanes.length - rows) * ROW + 'px';
	element('scroll').style.maxHeight = rows * ROW + 32 + 'px'; /* an axis and two borders */
}

function resize() {
	const width = element('charts').clientWidth - 18;

	overview.setSize({width, height: overview.height});
	chart.setSize({width, height: chart.height});
	histogram?.setSize({width: element('histogram').clientWidth, height: histogram.height});
}

/* ---- latencies ---- */

function fill_select(name, values, wanted) {
	const e = element(name);

	e.replaceChildren();
	for (const v of values)
		add(e, 'option', v, {value: v});
	if (values.includes(wanted))
		e.value = wanted;
}

const names_of = (name) => new Set(points.filter((p) => p.name === name)
	.flatMap((p) => p.fields.map((f) => f.name)));

function change_pair(by) {
	const [first, last] = ['first', 'last'].map((e) => element(e).value);
	const common = names_of(last), fields = [...names_of(first)].filter((f) => common.has(f));

	fill_select('by', ['thread', ...fields.map((f) => `field ${f}`)], by || element('by').value);
	pairs = first && last ? pairs_of(first, last, element('by').value.slice(6) || null) : null;
	chart.redraw(false);
	show_latency();
}

function show_latency() {
	const within = element('within').checked, ids = pairs ? [...pairs.begins.keys()].filter((k) =>
		!within || (time[pairs.begins[k]] >= shown.from && time[pairs.ends[k]] <= shown.to)) : [];
	const ns = (k) => time[pairs.ends[k]] - time[pairs.begins[k]], d = distribution(ids.map(ns));
	let ties = 0;

	element('latency').textContent = !pairs ? 'Choose two tracepoints.' : !d.count ?
		'There is no such pair.' : `count ${d.count}   mean ${duration(d.mean)}   ` +
		d.percentiles.map(([p, v]) => (p < 100 ? `p${p} ` : 'max ') + duration(v)).join('   ') +
		(within ? '' : `   ${pairs.unmatched} without the other one`);
	element('slow').hidden = !d.count;
	element('slowest').replaceChildren();
	const slowest = ids.filter((k) => ns(k) > d.tenth || (ns(k) === d.tenth && ties++ < 10));

	for (const k of slowest.sort((a, b) => ns(b) - ns(a)).slice(0, 10)) {
		const i = pairs.begins[k], margin = ns(k) / 4;

		add_row(element('slowest'), [duration(ns(k)), seconds(time[i]),
			thread_cell(i)], () => {
			set_window(time[i] - margin, time[pairs.ends[k]] + margin);
			select(i);
		});
	}
	show_histogram(d);
}

/* Counts are shown as their logarithm plus one, so that one event is a bar, and none is not. */
const powers = (most) => [...Array(Math.floor(Math.log10(most)) + 2).keys()];
const label_count = (y) => y ? 10 ** (y - 1) : 0;

function show_histogram({buckets}) {
	const bs = Object.keys(buckets).map(Number), x = [], y = [];

	histogram?.destroy();
	histogram = null;
	for (let b = Math.max(0, Math.min(...bs) - 1); b <= Math.max(...bs) + 2; b++) {
		x.push(b);
		y.push(buckets[b] || 0);
	}
	if (!bs.length)
		return;
	const most = Math.max(...y);

	histogram = new uPlot({width: element('histogram').clientWidth, height: 240,
		legend: {show: false}, cursor: {show: false}, scales: {x: {time: false},
			y: {range: () => [0, Math.log10(most) + 1.1]}},
		axes: [axis({incrs: [1, 2, 4, 8, 16, 32], space: 70,
			values: (u, v) => v.map((b) => duration(bucket_low(b), 3))}),
			axis({size: 70, splits: () => powers(most), values: (u, v) => v.map(label_count)})],
		series: [{}, steps('--ours')],
	}, [x, y.map((n) => n && Math.log10(n) + 1)], element('histogram'));
	histogram.counts = y;
}

/* ---- begin ---- */

const plural = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

/* ISO 8601 in local time, with the zone. */
function iso_date(ms) {
	const zone = -new Date(ms).getTimezoneOffset(), two = (n) => String(n).padStart(2, '0');
	const offset = (zone < 0 ? '-' : '+') + two(Math.floor(Math.abs(zone) / 60)) + ':' +
		two(Math.abs(zone) % 60);

	return new Date(ms + zone * 60000).toISOString().replace('Z', offset);
}

/* Those with the same name, such as those of several processes, are one. */
function tracepoints() {
	const by_name = new Map();

	for (const p of points.filter((p) => p))
		by_name.set(p.name, {...p, count: p.count + (by_name.get(p.name)?.count || 0)});
	return [...by_name.values()].sort((a, b) => b.count - a.count);
}

function describe() {
	const programs = [...new Set(meta.files.map((f) => f.program))].join(', ');
	const table = element('points'), length = count ? time[count - 1] - time[0] : 0;

	document.title = `${programs}: nearcpu trace`;
	for (const f of meta.files.slice(0, 10))
		add(element('files'), 'div', `${f.path}: ${f.program}, process ${f.pid}, ` +
			iso_date(f.begin_ms));
	if (meta.files.length > 10)
		add(element('files'), 'div', `and ${plural(meta.files.length - 10, 'file')} more`);
	add(element('files'), 'div', `${plural(count, 'event')} in ${seconds(length)} s, ` +
		`${plural(lanes.length - threads.length, 'CPU')}, ` +
		`${plural(threads.length, 'thread')}. nearcpu ${meta.version}`, {id: 'count'});
	element('losses').textContent = meta.losses.trim();
	for (const p of tracepoints()) {
		const row = add_row(table, [p.count, p.level, ''], () => {
			element('query').value = p.name;
			start_search();
		});

		add_name(row.children[2], p);
		row.title = `${p.name}(${p.fields.map((f) => f.name).join(', ')}) ${p.place}`;
	}
}

function listen_to_all() {
	const clicks = {previous: () => go(-1), next: () => go(1), in: () => zoom(.5),
		out: () => zoom(2), all: show_all};
	const keys = {'+': clicks.in, '-': clicks.out, 0: show_all, ArrowLeft: () => move(-.25),
		ArrowRight: () => move(.25)};
	let timer;

	for (const name in clicks)
		element(name).onclick = clicks[name];
	element('query').oninput = () => {
		clearTimeout(timer);
		timer = setTimeout(start_search, 200);
	};
	document.onkeydown = (e) => {
		if (e.target.id === 'query' && e.key === 'Enter')
			go(e.shiftKey ? -1 : 1);
		else if (!/INPUT|SELECT/.test(e.target.tagName) && !e.ctrlKey && keys[e.key])
			keys[e.key]();
	};
	element('scroll').onscroll = () => {
		top_lane = element('scroll').scrollTop / ROW;
		chart.setScale('y', {min: top_lane, max: top_lane + chart.bbox.height / uPlot.pxRatio / ROW});
	};
	chart.over.addEventListener('click', () => {
		const i = event_at(chart);

		if (i >= 0)
			select(i);
	});
	chart.over.addEventListener('wheel', (e) => {
		if (!e.ctrlKey && !e.shiftKey && !e.deltaX)
			return;
		e.preventDefault();
		if (e.ctrlKey)
			zoom(2 ** (Math.sign(e.deltaY) / 2), chart.posToVal(chart.cursor.left, 'x'));
		else
			move(.1 * Math.sign(e.deltaX || e.deltaY));
	}, {passive: false});
	element('first').onchange = element('last').onchange = element('by').onchange = () => change_pair();
	element('within').onchange = show_latency;
	window.onresize = resize;
}

function begin() {
	bytes = from_base64(element('events').textContent);
	view = new DataView(bytes.buffer);
	decode_events();
	make_runs();
	element('events').remove();
	make_lanes();
	describe();
	element('error').hidden = true;
	element('page').hidden = false;
	if (!count) {
		element('charts').textContent = 'The trace has no events.';
		return;
	}
	const margin = Math.max((time[count - 1] - time[0]) / 100, LEAST_WIDTH);
	const [first, last] = meta.between.split(',');

	extent = shown = {from: Math.max(0, time[0] - margin), to: time[count - 1] + margin};
	all = index_of(Uint32Array.from(time.keys()));
	plain = runs.begins.length ? index_of(all.found.filter((i) => !point_of(i).sched)) : all;
	make_charts();
	listen_to_all();
	for (const [name, wanted] of [['first', first], ['last', last]])
		fill_select(name, ['', ...new Set(points.filter((p) => p.count).map((p) => p.name))], wanted);
	change_pair(meta.by && `field ${meta.by}`);
	show_all();
}

window.onerror = (message) => {
	element('error').hidden = false;
	element('error').textContent = `This page is damaged: ${message}`;
};
begin();
