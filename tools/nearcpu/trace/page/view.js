/* SPDX-License-Identifier: MIT */
/* The window in time: what the lanes and the table show of it; the search. */
'use strict';

const ROW = 24, MOST_ROWS = 100, LEAST_WIDTH = 20;
let shown = {from: 0, to: 1}; /* the window, in ns */
let all, plain, matches = null; /* of index_of; plain: without the scheduler's */
let top_lane = 0, selected = -1, pairs = null, extent;
let overview, chart, histogram;

/* ---- elements ---- */

const style = (name) => getComputedStyle(document.body).getPropertyValue(name);

/* Colours that the colour-blind can tell apart too (Okabe and Ito's, without those that are pale on
 * white), and a shape: 35 combinations. */
const COLOURS = ['#0072b2', '#e69f00', '#cc79a7', '#009e73', '#d55e00', '#56b4e9', '#9a7d0a'];
const SHAPES = [[0, 0, 1, 0, 1, 1, 0, 1], [.5, 0, 1, 1, 0, 1], [.5, 0, 1, .5, .5, 1, 0, .5],
	[0, 0, 1, 0, .5, 1], [0, .3, 1, .3, 1, .7, 0, .7]]; /* corners: x, y, x, y ... */
const colour = (p) => COLOURS[p.hue % COLOURS.length];
const shape = (p) => SHAPES[p.hue % SHAPES.length];

function draw_shape(c, corners, x, y, size) {
	c.beginPath();
	for (let k = 0; k < corners.length; k += 2)
		c.lineTo(x + corners[k] * size, y + corners[k + 1] * size);
	c.fill();
}

function add(parent, name, text, attributes) {
	const e = document.createElement(name);

	e.textContent = text;
	Object.assign(e, attributes);
	parent.append(e);
	return e;
}

function add_row(table, cells, on_click) {
	const row = add(table, 'tr', '', {onclick: on_click});

	for (const cell of cells)
		add(row, 'td', cell);
	return row;
}

function add_name(cell, p) {
	cell.textContent = p.name;
	cell.prepend(document.createElement('i'));
	cell.firstChild.style.background = colour(p);
	cell.firstChild.style.clipPath = `polygon(${shape(p).map((n, k) =>
		`${100 * n}%${k % 2 && k < shape(p).length - 1 ? ',' : ''}`).join(' ')})`;
}

/* ---- the lanes ---- */

/* Calls visit(column, events, the one in their middle) for each column of `width` ns that is not
 * empty. The steps are searches: they depend on the columns and hardly on the number of events. */
function columns({start, ids}, lane, width, visit) {
	const end = start[lane + 1];
	let k = lower(ids, start[lane], end, shown.from);

	while (k < end && time[ids[k]] <= shown.to) {
		const column = Math.floor((time[ids[k]] - shown.from) / width);
		const limit = shown.from + (column + 1) * width;
		let step = 1;

		while (k + step < end && time[ids[k + step]] < limit)
			step *= 2;
		const next = Math.max(k + 1, lower(ids, k + (step >> 1), Math.min(end, k + step), limit));

		visit(column, next - k, ids[(k + next) >> 1]);
		k = next;
	}
}

/* Pairs, as bars behind the events: lane_of(k) and fill_of(k) of each; top and height in parts of a
 * lane. They are in the order of their ends; one that is within the one before, by the pixel, is left
 * out. */
function draw_bars(u, pairs, lane_of, fill_of, top, height) {
	const c = u.ctx, box = u.bbox, row = ROW * uPlot.pxRatio, drawn = [];
	const scale = box.width / (shown.to - shown.from), x_of = (t) => (t - shown.from) * scale;

	for (let k = 0; pairs && k < pairs.begins.length; k++) {
		const begin = x_of(time[pairs.begins[k]]), end = x_of(time[pairs.ends[k]]);
		const lane = lane_of(k), y = (lane - top_lane) * row;

		if (end < 0 || begin > box.width || y < -row || y > box.height ||
			(drawn[lane] && begin > drawn[lane][0] - 1 && end < drawn[lane][1] + 1))
			continue;
		drawn[lane] = [begin, end];
		c.fillStyle = fill_of(k);
		c.fillRect(box.left + begin, box.top + y + row * top, Math.max(end - begin, 1), row * height);
	}
}

/* The chosen ones in the lanes of the threads where they begin. What runs: a strip below, in the CPU's
 * lane with a colour of the thread. */
function draw_pairs(u) {
	const ours = style('--ours'), missed = style('--missed'), lane_at = (i) => thread_lane[thread[i]];

	u.ctx.globalAlpha = .35;
	draw_bars(u, pairs, (k) => lane_at(pairs.begins[k]), () => ours, .15, .3);
	u.ctx.globalAlpha = 1;
	draw_bars(u, runs, (k) => lane_at(runs.begins[k]), () => ours, .86, .14);
	draw_bars(u, waits, (k) => lane_at(waits.ends[k]), () => missed, .92, .08);
	draw_bars(u, runs, (k) => cpu_lane.get(cpu[runs.begins[k]]),
		(k) => COLOURS[thread[runs.begins[k]] % COLOURS.length], .86, .14);
}

/* A mark on the bars, where there is room for it. */
function draw_mark(u, marks, lane, i, x, y) {
	const size = 6 * uPlot.pxRatio;

	if (x - marks[lane] < 1.5 * size)
		return;
	marks[lane] = x;
	draw_shape(u.ctx, shape(point_of(i)), x - size / 2, y, size);
}

function draw_lanes(u) {
	const c = u.ctx, box = u.bbox, row = ROW * uPlot.pxRatio, dot = 2 * uPlot.pxRatio;
	const width = (shown.to - shown.from) * dot / box.width;
	const last = Math.min(lanes.length, Math.ceil(top_lane + box.height / row));
	const colours = points.map(colour), bars = [], marks = [];
	let most = 1;

	for (let lane = Math.floor(top_lane); lane < last; lane++) {
		const take = (fill) => (column, n, i) => {
			most = Math.max(most, n);
			bars.push([lane, column, n, fill || colours[point[i] >>> 1], fill ? -1 : i]);
		};

		if (matches)
			columns(plain, lane, width, take(style('--dim')));
		columns(matches || plain, lane, width, take());
	}
	c.save();
	c.beginPath();
	c.rect(box.left, box.top, box.width, box.height);
	c.clip();
	c.fillStyle = style('--panel');
	for (let lane = 2 * Math.floor(top_lane / 2); lane < last; lane += 2)
		c.fillRect(box.left, box.top + (lane - top_lane) * row, box.width, row);
	draw_pairs(u);
	for (const [lane, column, n, fill, i] of bars) {
		const y = box.top + (lane + 1 - top_lane) * row;
		const height = (row - dot) * (.3 + .7 * Math.log(n) / Math.max(Math.log(most), 1e-9));

		c.fillStyle = fill;
		const tall = most === 1 ? .8 * row : height;

		c.fillRect(box.left + column * dot, y, dot, -tall);
		if (i >= 0)
			draw_mark(u, marks, lane, i, box.left + (column + .5) * dot, y - tall);
	}
	if (is_shown(selected)) {
		c.fillStyle = style('--ink');
		c.fillRect(u.valToPos(time[selected], 'x', true), box.top, uPlot.pxRatio, box.height);
	}
	c.restore();
}

/* The event of that lane that is nearest to the mouse, within 8 pixels, or -1. */
function event_at(u) {
	const lane = Math.floor(top_lane + u.cursor.top / ROW), {start, ids} = matches || all;

	if (!(u.cursor.left >= 0 && lane >= 0 && lane < lanes.length))
		return -1;
	const t = u.posToVal(u.cursor.left, 'x');
	const k = lower(ids, start[lane], start[lane + 1], t), found = [k - 1, k]
		.filter((j) => j >= start[lane] && j < start[lane + 1]).map((j) => ids[j])
		.sort((a, b) => Math.abs(time[a] - t) - Math.abs(time[b] - t))[0];

	return found >= 0 && Math.abs(u.valToPos(time[found], 'x') - u.cursor.left) < 8 ? found : -1;
}

function show_tip(u) {
	const i = event_at(u), tip = element('tip'), box = u.over.getBoundingClientRect();

	tip.hidden = i < 0;
	if (i < 0)
		return;
	tip.textContent = seconds(time[i]) + ' ' + line(i).slice(0, 400);
	tip.style.left = Math.min(box.left + u.cursor.left + 12, innerWidth - 420) + 'px';
	tip.style.top = box.top + u.cursor.top + 16 + 'px';
}

/* ---- the window ---- */

function set_window(from, to) {
	const least = Math.max(LEAST_WIDTH - (to - from), 0) / 2;
	const width = Math.min(to - from + 2 * least, extent.to - extent.from);

	from = Math.min(Math.max(from - least, extent.from), extent.to - width);
	shown = {from, to: from + width};
	chart.setScale('x', {min: shown.from, max: shown.to});
	overview.redraw(false);
	show_rows();
	if (element('within').checked)
		show_latency();
}

const is_shown = (i) => i >= 0 && time[i] >= shown.from && time[i] <= shown.to;

function zoom(factor, at = is_shown(selected) ? time[selected] : (shown.from + shown.to) / 2) {
	set_window(at - (at - shown.from) * factor, at + (shown.to - at) * factor);
}

function move(part) {
	const by = (shown.to - shown.from) * part;

	set_window(shown.from + by, shown.to + by);
}

const show_all = () => set_window(extent.from, extent.to);

function select(i) {
	const lane = thread_lane[thread[i]], half = (shown.to - shown.from) / 2, box = element('scroll');

	selected = i;
	if (lane * ROW < box.scrollTop || (lane + 3) * ROW > box.scrollTop + box.clientHeight)
		box.scrollTop = (lane - 1) * ROW;
	if (is_shown(i))
		set_window(shown.from, shown.to);
	else
		set_window(time[i] - half, time[i] + half);
}

function show_rows() {
	const {found} = matches || all, table = element('rows');
	const begin = lower(found, 0, found.length, shown.from);
	const end = lower(found, begin, found.length, shown.to + .5);
	const at = selected < 0 ? begin : lower(found, begin, end, time[selected]);
	const first = Math.max(begin, Math.min(at - 5, end - MOST_ROWS));
	const last = Math.min(first + MOST_ROWS, end);

	table.replaceChildren();
	for (let k = first; k < last; k++) {
		const i = found[k], row = add_row(table, [seconds(time[i]), cpu[i],
			thread_cell(i), '', fields(i)], () => select(i));

		add_name(row.children[3], point_of(i));
		row.className = i === selected ? 'selected' : '';
	}
	element('listed').textContent = end - begin > last - first ?
		`${first - begin + 1} to ${last - begin} of the ${end - begin} above` : '';
	element('shown').textContent = `${seconds(shown.from)} to ${seconds(shown.to)} s ` +
		`(${duration(shown.to - shown.from)}): ${plural(end - begin, 'event')}`;
}

/* ---- search ---- */

let query = '';

async function start_search() {
	const words = query = element('query').value.trim().toLowerCase();
	const found = words ? await search(words, () => words === query, (part) => {
		element('found').textContent = `searching: ${Math.floor(100 * part)} %`;
	}) : null;

	if (words !== query)
		return;
	matches = found && index_of(found);
	element('found').textContent = found ? `${found.length} of ${count} events` : '';
	overview.setData(overview_data());
	set_window(shown.from, shown.to);
}

function go(by) {
	const {found} = matches || all;
	const after = selected >= 0 ? selected : lower(all.found, 0, count, shown.from) - 1;
	const k = by > 0 ? found.findIndex((i) => i > after) : found.findLastIndex((i) => i < after);

	if (k >= 0)
		select(found[k]);
}
