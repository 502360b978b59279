/* SPDX-License-Identifier: MIT */
/* The events of the page: decoding, texts, search, latencies. Times are ns since the begin. */
'use strict';

const element = (id) => document.getElementById(id);
const meta = JSON.parse(element('description').textContent);
const count = meta.events;
const time = new Float64Array(count);
const point = new Uint32Array(count); /* index * 2, and 1 if strings were cut */
const cpu = new Uint16Array(count);
const thread = new Uint32Array(count);
const payload = new Uint32Array(count); /* where it begins in `bytes` */
const points = [], threads = [], processes = [...new Set(meta.files.filter((f) => !f.sched)
	.map((f) => f.pid))];
const names = new Map([...new Set(meta.points.map((p) => p.name))].map((name, i) => [name, i]));
let bytes, view;

for (const p of meta.points) {
	const file = meta.files[p.file];

	points[p.index] = {...p, pid: file.pid, process: processes.indexOf(file.pid),
		program: file.program, sched: file.sched, hue: names.get(p.name)};
	for (const f of p.fields) {
		const type = {f: 'Float', i: 'Int', e: 'Int'}[f.kind] || 'Uint';

		f.symbols = file.symbols || {};
		f.get = (f.size === 8 && type !== 'Float' ? 'getBig' : 'get') + type + 8 * f.size;
	}
}
const point_of = (i) => points[point[i] >>> 1];

/* ---- decoding ---- */

function from_base64(text) {
	const decoded = atob(text), result = new Uint8Array(decoded.length);

	for (let i = 0; i < result.length; i++)
		result[i] = decoded.charCodeAt(i);
	return result;
}

/* As trace/trace_html.c has encoded them. An event of the scheduler begins with its process. */
function decode_events() {
	const known = new Map(), by_pid = new Map(processes.map((pid, i) => [pid, i]));
	let at = 0, now = 0;

	function number() {
		let byte = bytes[at++], n = byte & 127;

		for (let scale = 128; byte > 127; scale *= 128) {
			byte = bytes[at++];
			n += (byte & 127) * scale;
		}
		return n;
	}
	function process_of(pid) {
		if (!by_pid.has(pid))
			by_pid.set(pid, processes.push(pid) - 1);
		return by_pid.get(pid);
	}
	for (let i = 0; i < count; i++) {
		time[i] = now += number();
		point[i] = number();
		cpu[i] = number();
		const tid = number(), size = number(), p = point_of(i);
		const process = p.sched ? process_of(String(view.getUint32(at, meta.little))) : p.process;
		const key = process * 4194304 + tid;
		let index = known.get(key);

		if (index === undefined) {
			const pid = processes[process];

			index = threads.length;
			known.set(key, index);
			threads.push({tid, pid, program: pid === p.pid ? p.program : '', process});
		}
		thread[i] = index;
		payload[i] = at;
		at += size;
	}
	if (at !== bytes.length)
		throw new Error('the events of this page are incomplete');
}

/* ---- texts, as `nearcpu trace show` prints them ---- */

const latin = new TextDecoder('latin1'); /* a character for each byte, another one */
const utf8 = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});
const hex = (byte) => byte.toString(16).padStart(2, '0');
const letters = {8: 'b', 12: 'f', 10: 'n', 13: 'r', 9: 't', 34: '"', 92: '\\'};

function character(s) {
	try {
		return utf8.decode(s);
	} catch {
		return '';
	}
}

function quote(s) {
	let text = '"';

	for (let i = 0; i < s.length;) {
		const b = s[i];
		const size = b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
		const c = size === 1 ? String.fromCharCode(b) : character(s.subarray(i, i + size));

		if (letters[b]) {
			text += '\\' + letters[b];
		} else if (c < ' ' || (c >= '\x7f' && c < '\xa0')) { /* '' too */
			text += '\\x' + hex(b);
			i++;
			continue;
		} else {
			text += c;
		}
		i += size;
	}
	return text + '"';
}

/* As %g with as few digits as show takes. */
function float(v, digits, most, round) {
	while (digits < most && round(Number(v.toPrecision(digits))) !== v)
		digits++;
	const [head, power] = v.toExponential(digits - 1).split('e'), n = Number(power);
	const sign = Object.is(v, -0) ? '-' : '', trim = (s) => s.replace(/\.?0+$/, '');

	if (n >= -4 && n < digits)
		return sign + (n === digits - 1 ? v.toFixed(0) : trim(v.toFixed(digits - 1 - n)));
	return trim(head) + 'e' + power[0] + power.slice(1).padStart(2, '0');
}

// Of a call stack.
const symbol = (f, address) => f.counted && f.size === 8 && f.name === 'stack' ?
	f.symbols[address] || address : address;

function one(f, at) {
	const v = view[f.get](at, meta.little);

	switch (f.kind) {
	case 'b': return v ? 'true' : 'false';
	case 'x': return symbol(f, '0x' + v.toString(16));
	case 'e': return (f.labels.find((l) => l[0] === v) || [0, String(v)])[1];
	case 'f': return Number.isNaN(v) ? 'nan' : !Number.isFinite(v) ? (v < 0 ? '-inf' : 'inf') :
		f.size === 4 ? float(v, 6, 9, Math.fround) : float(v, 15, 17, Number);
	default: return String(v);
	}
}

/* Calls visit(field, begin, end), of the bytes after the length. */
function each_field(i, visit) {
	let at = payload[i];

	for (const f of point_of(i).fields) {
		let n = 1;

		if (f.counted) {
			n = view.getUint16(at, meta.little);
			at += 2;
		}
		if (f.counted && n === 0xffff) {
			n = view.getUint32(at, meta.little);
			at += 4;
		}
		visit(f, at, at + n * f.size);
		at += n * f.size;
	}
}

function value(f, at, end) {
	if (f.kind === 's')
		return quote(bytes.subarray(at, end));
	if (f.kind === 'y')
		return '"' + Array.from(bytes.subarray(at, end), hex).join('') + '"';
	if (!f.counted)
		return one(f, at);
	const values = [];

	for (; at < end; at += f.size)
		values.push(one(f, at));
	return '[' + values.join(',') + ']';
}

function fields(i) {
	let text = '';

	each_field(i, (f, at, end) => text += ` ${f.name}=${value(f, at, end)}`);
	return text.slice(1) + (point[i] & 1 ? '...' : '');
}

const thread_name = (t) => (meta.files.length > 1 ? `pid ${t.pid} ` : '') + `tid ${t.tid}`;
const thread_cell = (i) => (processes.length > 1 ? `${threads[thread[i]].pid}/` : '') +
	threads[thread[i]].tid;
const line = (i) =>
	`cpu ${cpu[i]} ${thread_name(threads[thread[i]])} ${point_of(i).name} ${fields(i)}`.trimEnd();
const seconds = (ns) => `${Math.floor(ns / 1e9)}.${String(Math.floor(ns % 1e9)).padStart(9, '0')}`;

function duration(ns, digits = 4) {
	const unit = ns < 1e3 ? 0 : ns < 1e6 ? 1 : ns < 1e9 ? 2 : 3;

	return Number((ns / 1e3 ** unit).toPrecision(digits)) + ' ' + ['ns', '\u00b5s', 'ms', 's'][unit];
}

/* ---- lanes, search ---- */

/* The first of sorted ids [low, high) whose time is not before t. */
function lower(ids, low, high, t) {
	while (low < high) {
		const middle = (low + high) >>> 1;

		if (time[ids[middle]] < t)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Lanes: of the CPUs, then of the threads. */
let lanes = [], cpu_lane, thread_lane;

function make_lanes() {
	const used = [...new Set(cpu)].sort((a, b) => a - b);
	const order = [...threads.keys()].sort((a, b) =>
		threads[a].process - threads[b].process || threads[a].tid - threads[b].tid);

	cpu_lane = new Map(used.map((c, i) => [c, i]));
	thread_lane = [];
	order.forEach((t, i) => thread_lane[t] = used.length + i);
	lanes = [...used.map((c) => `CPU ${c}`), ...order.map((t) => (threads[t].name ||
		(processes.length > 1 ? threads[t].program : 'thread')) + ` ${threads[t].tid}`)];
}

/* ---- the scheduler ---- */

/* Pairs of events: from where a thread runs on a CPU to where it does not, and from where it could
 * to where it does. */
const runs = {begins: [], ends: []}, waits = {begins: [], ends: []};

function sched_value(i, name) {
	let found;

	each_field(i, (f, at, end) => {
		if (f.name === name)
			found = f.kind === 's' ? latin.decode(bytes.subarray(at, end)) :
				view.getUint32(at, meta.little);
	});
	return found;
}

function make_runs() {
	const by_tid = new Map(threads.map((t, i) => [t.tid, i])), on = new Map(), ready = new Map();
	const is = (name) => points.map((p) => p.sched && p.name === `sched:${name}`);
	const wakes = is('wake'), begins = is('run'), named = [];

	function close(map, key, pairs, i) {
		if (map.has(key)) {
			pairs.begins.push(map.get(key));
			pairs.ends.push(i);
			map.delete(key);
		}
	}
	for (let i = 0; i < count; i++) {
		const p = point[i] >>> 1, t = thread[i];

		if (!points[p].sched)
			continue;
		if (wakes[p]) {
			ready.set(by_tid.get(sched_value(i, 'task')), i);
			continue;
		}
		close(on, cpu[i], runs, i);
		if (begins[p]) {
			close(ready, t, waits, i);
			on.set(cpu[i], i);
			named[t] = i;
		} else if (sched_value(i, 'why') === 1) { /* preempted */
			ready.set(t, i);
		} else {
			ready.delete(t); /* woken before it slept */
		}
	}
	named.forEach((i, t) => threads[t].name = sched_value(i, 'thread'));
}

/* The events of lane l, in the order of times: ids[start[l]] to ids[start[l + 1] - 1]. */
function index_of(found) {
	const start = new Uint32Array(lanes.length + 1), ids = new Uint32Array(2 * found.length);

	for (const i of found) {
		start[cpu_lane.get(cpu[i]) + 1]++;
		start[thread_lane[thread[i]] + 1]++;
	}
	for (let l = 0; l < lanes.length; l++)
		start[l + 1] += start[l];
	const next = start.slice();

	for (const i of found) {
		ids[next[cpu_lane.get(cpu[i])]++] = i;
		ids[next[thread_lane[thread[i]]]++] = i;
	}
	return {found, start, ids};
}

/* The events whose line has the words. null: is_current() became false. */
async function search(words, is_current, progress) {
	const found = new Uint32Array(count);
	const by_name = points.map((p) => p.name.toLowerCase().includes(words));
	let n = 0, pause = performance.now() + 50;

	for (let i = 0; i < count; i++) {
		if (by_name[point[i] >>> 1] || line(i).toLowerCase().includes(words))
			found[n++] = i;
		if (i % 1024 === 0 && performance.now() > pause) {
			progress(i / count);
			await new Promise((done) => setTimeout(done));
			if (!is_current())
				return null;
			pause = performance.now() + 50;
		}
	}
	return found.slice(0, n);
}

/* ---- latencies ---- */

/* What the events of a pair have in common; undefined: the event does not have the field. */
function key_of(i, field) {
	let key;

	if (!field)
		return thread[i];
	each_field(i, (f, at, end) => {
		if (f.name !== field || key !== undefined)
			return;
		const {process} = point_of(i);

		if (end - at === 4) /* the most frequent kind, fast */
			key = process * 2 ** 32 + view.getUint32(at, true);
		else
			key = process + ' ' + latin.decode(bytes.subarray(at, end));
	});
	return key;
}

/* From an event named first to the next one named last, as `nearcpu trace stat --between`. */
function pairs_of(first, last, field) {
	const open = new Map(), begins = [], ends = [];
	const kind = points.map((p) => (p.name === first) + 2 * (p.name === last));
	let unmatched = 0;

	for (let i = 0; i < count; i++) {
		const k = kind[point[i] >>> 1], key = k ? key_of(i, field) : undefined;

		if (key === undefined)
			continue;
		if (k & 2 && open.has(key)) {
			begins.push(open.get(key));
			ends.push(i);
			open.delete(key);
		} else if (k === 2) {
			unmatched++;
		}
		if (k & 1) {
			unmatched += open.has(key);
			open.set(key, i);
		}
	}
	return {begins, ends, unmatched: unmatched + open.size};
}

/* Four buckets for each power of two: bucket b begins at bucket_low(b). */
const bucket_low = (b) => b < 4 ? b : 2 ** Math.floor(b / 4 + 1) * (1 + b % 4 / 4);

function distribution(ns) {
	const sorted = Float64Array.from(ns).sort(), buckets = [];
	const percentile = (p) => sorted[Math.max(0, Math.ceil(p / 100 * sorted.length) - 1)];

	for (let i = 0, b = 0, limit = 0; i < sorted.length; i++) {
		while (sorted[i] >= limit)
			limit = bucket_low(++b);
		buckets[b - 1] = (buckets[b - 1] || 0) + 1;
	}
	return {count: sorted.length, mean: sorted.reduce((a, b) => a + b, 0) / sorted.length,
		percentiles: [50, 90, 99, 99.9, 100].map((p) => [p, percentile(p)]),
		tenth: sorted[Math.max(0, sorted.length - 10)], buckets};
}
