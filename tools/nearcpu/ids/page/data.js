/* SPDX-License-Identifier: MIT */
/* The spans of the page: decoding, lanes, texts. Times are microseconds since the begin. */
'use strict';

const element = (id) => document.getElementById(id);
const meta = JSON.parse(element('description').textContent);
const count = meta.spans;
const thread = new Uint32Array(count); /* index in meta.lanes */
const begin = new Float64Array(count), end = new Float64Array(count);
const cpu = new Int32Array(count), cid = new Int32Array(count), node = new Int32Array(count);
const MOST_LEVELS = 4;
let every = []; /* lane */

/* As ids/ids_html.c has encoded them. */
function decode() {
	const bytes = atob(element('spans').textContent);
	let at = 0;

	function number() {
		let byte = bytes.charCodeAt(at++), n = byte & 127;

		for (let scale = 128; byte > 127; scale *= 128) {
			byte = bytes.charCodeAt(at++);
			n += (byte & 127) * scale;
		}
		return n;
	}
	for (let i = 0; i < count; i++) {
		thread[i] = number();
		begin[i] = number();
		end[i] = begin[i] + number();
		cpu[i] = number() - 1;
		cid[i] = number() - 1;
		node[i] = number() - 1;
	}
	if (at !== bytes.length)
		throw new Error('its spans are incomplete');
}

/* ---- texts ---- */

const plural = (n, one, many = one + 's') => `${n} ${n === 1 ? one : many}`;
const known = (n) => n < 0 ? 'unknown' : n;
const seconds = (us) => (us / 1e6).toFixed(6);

function ranges(ids) {
	let text = '';

	for (let i = 0, next; i < ids.length; i = next) {
		next = i + 1;
		while (next < ids.length && ids[next] === ids[i] + next - i)
			next++;
		text += (text && ',') + ids[i] + (next > i + 1 ? '-' + ids[next - 1] : '');
	}
	return text || 'unknown';
}

function bytes_text(n) {
	let unit = 0;

	for (; n >= 10240 && unit < 6; unit++)
		n /= 1024;
	return `${Math.round(n)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}`;
}

const process_name = (p) => `${meta.processes[p].name} ${meta.processes[p].pid}`;

function thread_name(t) {
	const [tid, p, name] = meta.lanes[t];
	const own = name && name !== meta.processes[p].name ? ` ${name}` : '';

	return `${process_name(p)}, thread ${tid}${own}`;
}

/* ---- lanes ---- */

/* The first k of 0 to n - 1 with is(k), which stays true from there on; n: none. */
function first(n, is) {
	let low = 0;

	while (low < n) {
		const middle = (low + n) >>> 1;

		if (is(middle))
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* `ids` are spans in the order of their begins; `latest` has the latest end up to each. Spans that
 * overlap are on levels of their own. */
function make_lane(kind, name, process, ids) {
	const latest = new Float64Array(ids.length), level = new Uint8Array(ids.length), ends = [];

	ids.sort((a, b) => begin[a] - begin[b]);
	ids.forEach((i, k) => {
		let l = ends.findIndex((e) => e <= begin[i]);

		if (l < 0)
			l = ends.length < MOST_LEVELS ? ends.length : ends.indexOf(Math.min(...ends));
		ends[l] = Math.max(ends[l] || 0, end[i]);
		level[k] = l;
		latest[k] = Math.max(k ? latest[k - 1] : 0, end[i]);
	});
	return {kind, name, process, ids, latest, level, levels: Math.max(ends.length, 1)};
}

function group(key) {
	const groups = new Map();

	for (let i = 0; i < count; i++) {
		const k = key(i);

		if (!groups.has(k))
			groups.set(k, []);
		groups.get(k).push(i);
	}
	return groups;
}

/* CPUs, then of each process its cids and its threads. */
function make_lanes() {
	const process = (i) => meta.lanes[thread[i]][1], cids = [], threads = [];
	const cpus = [...group((i) => cpu[i])].sort((a, b) => a[0] - b[0])
		.map(([c, ids]) => make_lane('CPU', `CPU ${known(c)}`, -1, ids));
	const used = group((i) => process(i) * 131072 + cid[i] + 1), ran = group((i) => thread[i]);

	for (const [k, ids] of [...used].sort((a, b) => a[0] - b[0]))
		if (cid[ids[0]] >= 0)
			(cids[Math.floor(k / 131072)] ??= []).push(make_lane('cid',
				`${process_name(process(ids[0]))}, cid ${cid[ids[0]]}`, process(ids[0]), ids));
	meta.lanes.forEach((l, t) => (threads[l[1]] ??= [])
		.push(make_lane('thread', thread_name(t), l[1], ran.get(t) || [])));
	every = [...cpus, ...meta.processes.keys()].flatMap((x) => typeof x === 'object' ? [x] :
		[...cids[x] || [], ...threads[x] || []]);
}
