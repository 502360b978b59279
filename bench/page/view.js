// SPDX-License-Identifier: MIT
/* Draws the page from the JSON of the run. Lengths of bars are linear, and start at 0. Each ratio on
 * the page is of one form: how many times as good, so that above 1 is a gain. */
'use strict';
const element = (name) => document.getElementById(name);
const run = JSON.parse(element('data').textContent);

/* ---- words ---- */

function three(v, unit = '') {
	if (v === null || !isFinite(v))
		return '-';
	if (v < .00095)
		return (v ? v.toPrecision(2) : '0') + unit;
	const decimals = v < .09995 ? 4 : v < .9995 ? 3 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
	return v.toFixed(decimals) + unit;
}

function scaled(v, units, factor = 1000) {
	let i = 0;
	while (v >= 999.5 && i + 1 < units.length) {
		v /= factor;
		i++;
	}
	return three(v, units[i]);
}
const time = (ns) => scaled(ns, [' ns', ' µs', ' ms', ' s']);
const rate = (n) => scaled(n, ['', ' k', ' M', ' G', ' T']);
const bytes = (n) => scaled(n, [' B', ' kB', ' MB', ' GB']);
const times = (v) => three(v, ' ×');

function median(values) {
	const sorted = values.filter((v) => v !== null).sort((a, b) => a - b), n = sorted.length;
	return n ? (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2 : null;
}
const of = (row, f) => median(row.samples.map(f));
const cpu = (s) => s.user_ns + s.system_ns;
const geometric = (values) => Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);

function spread_of(s) {
	const percent = (s.high - s.low) / s.median * 100;
	return s.median > 0 ? (percent < 9999.5 ? percent.toFixed(percent < 9.95 ? 1 : 0) : '>9999') + ' %' : '-';
}

/* ---- elements ---- */

/* make('td', {className: 'x'}, 'text', child): nothing of the data becomes markup. */
function make(tag, properties, ...children) {
	const made = Object.assign(document.createElement(tag), properties);
	made.append(...children.filter((c) => c !== null));
	return made;
}

function table(head, rows, caption) {
	const cell = (tag) => (c, i) => c instanceof Node && c.nodeName.startsWith('T') ? c :
		make(i ? tag : 'th', {scope: tag === 'th' ? 'col' : 'row'}, c);
	return make('div', {className: 'scroll'}, make('table', {},
		caption ? make('caption', {}, caption) : null,
		make('thead', {}, make('tr', {}, ...head.map(cell('th')))),
		make('tbody', {}, ...rows.map((r) => make('tr', {className: r.className || ''}, ...r.cells.map(cell('td')))))));
}

/* Lines of {label, value, text, kind, link, title}; `at`: where a line is drawn. */
function bars(into, lines, at) {
	const most = Math.max(...lines.map((l) => l.value), at || 0) || 1;
	for (const l of lines) {
		const bar = make('span', {className: `bar ${l.kind}`});
		bar.style.width = `${Math.max(l.value / most * 100, .15)}%`;
		const track = make('span', {className: 'track'}, bar);
		if (at) {
			const mark = make('span', {className: 'mark'});
			mark.style.left = `${at / most * 100}%`;
			track.append(mark);
		}
		into.append(make(l.link ? 'a' : 'div', {className: 'line', title: l.title || '', ...(l.link && {href: l.link})},
			make('span', {className: 'label'}, l.label), track, make('span', {className: 'value'}, l.text)));
	}
	return into;
}

/* ---- a table of the run ---- */

const measured = (t) => t.rows.filter((r) => r.samples);
const row_of = (t, name) => measured(t).find((r) => r.name === name);
const spread_of_cost = (r) => r.bytes_each || (r.window_ms ? r.wall_ns_per_op : r.cpu_ns_per_op);
const cost_of = (r) => spread_of_cost(r).median;
const cost = (t, r) => t.kind === 'memory' ? bytes(cost_of(r)) : time(cost_of(r));
const adjective = (t) => t.kind === 'memory' ? 'compact' : 'fast';
const kind_of_gain = (r) => !r.decided ? 'even' : r.ratio_to_best_other > 1 ? 'gain' : 'loss';
const unit_of = (t) => ({memory: '', wait: ' of wall time'}[t.kind] ?? ' of CPU time');

/* [heading, what it shows of a row], or no such column. */
function columns(t) {
	const gain = ['× best other', (r) => three(r.ratio_to_best_other ?? null)];
	const spread = ['spread', (r) => spread_of(spread_of_cost(r))];
	const wall = (r) => of(r, (s) => s.wall_ns / s.ops);
	const per_op = (f) => (r) => time(of(r, (s) => f(s) / s.ops));
	if (t.kind === 'memory')
		return [['in all', (r) => bytes(cost_of(r) * (r.samples[0].counters ?? 1))], ['each', (r) => bytes(cost_of(r))], gain, spread];
	if (t.kind === 'wait')
		return [['wall/op', (r) => time(cost_of(r))], ['op/s', (r) => rate(1e9 / cost_of(r))],
			['CPU/op', (r) => time(r.cpu_ns_per_op)],
			['throughput ×', (r) => r.name === t.against ? '1' : three(r.throughput_ratio?.median ?? null)], spread,
			t.latency ? null : ['fairness', (r) => t.threads > 1 ? three(r.fairness) : '-'],
			t.latency ? ['p99', (r) => time(of(r, (s) => s.p99_ns))] : ['p99.9 wait', (r) => time(r.p999_ns)]].filter(Boolean);
	const base = t.base && row_of(t, t.base);
	return [['wall/op', (r) => time(wall(r))], ['op/s', (r) => rate(1e9 / wall(r))], ['user/op', per_op((s) => s.user_ns)],
		['system/op', per_op((s) => s.system_ns)], ['op/CPU s', (r) => rate(1e9 / cost_of(r))], ['CPU/op', (r) => time(cost_of(r))],
		base ? ['above base', (r) => r === base ? '-' : (cost_of(r) - cost_of(base)).toFixed(2)] : null,
		t.apart ? null : gain, spread].filter(Boolean);
}

function rows_table(t) {
	const shown = columns(t);
	return table(['', ...shown.map(([head]) => head)], t.rows.map((r) => ({
		className: `${r.role} ${r.samples && r.role === 'ours' && !t.apart ? kind_of_gain(r) : ''}`,
		cells: [r.label + (r.role === 'yardstick' ? ' *' : '') + (r.fewer_operations ? ' ~' : ''),
			...(r.samples ? shown.map(([, show]) => show(r)) :
				[make('td', {className: 'why', colSpan: shown.length}, `${r.failed ? 'failed' : 'not measured'}: ${r.failed || r.missing}`)])]})), t.conditions);
}

function verdict(t) {
	const own = row_of(t, t.default), best = own && row_of(t, own.best_other);
	let text = own && `${own.label}: ${cost(t, own)}${unit_of(t)} ${t.operation}`;
	if (t.apart)
		text = 'Each row is another call; they are not compared.';
	else if (!own)
		text = 'Nothing of nearcpu could be measured here.';
	else if (best)
		text += `, ${times(own.ratio_to_best_other)} as ${adjective(t)} as the best other, ${best.label} (${cost(t, best)})` +
			(own.decided ? '' : ': no clear difference, within the spread');
	return make('p', {className: `verdict ${best ? kind_of_gain(own) : ''}`}, `${text}.`.replace('..', '.'));
}

/* A miss proves nothing where other programs run. */
const bound_class = (reached) => reached ? 'reached' : run.load.quiet ? 'missed' : 'unproved';

function figures(t) {
	const list = make('ul', {className: 'figures'});
	for (const f of t.figures) {
		const ratio = f.is === 'ratio', show = (v) => ratio ? times(1 / v) : t.kind === 'memory' ? bytes(v) : time(v);
		list.append(make('li', {}, make('b', {}, show(f.value)), ` ${f.text}; at ${ratio ? 'least' : 'most'} ${show(f.at_most)}: `,
			make('span', {className: bound_class(f.reached)}, f.reached ? 'reached' : 'missed')));
	}
	return list;
}

function section(t, id) {
	const chart = bars(make('div', {className: 'chart'}), measured(t).map((r) =>
		({label: r.label + (r.role === 'yardstick' ? ' *' : ''), value: cost_of(r), text: cost(t, r), kind: r.role})));
	return make('section', {id}, make('h2', {}, t.heading), make('p', {}, t.text), verdict(t),
		chart, measured(t).length ? make('p', {className: 'soft'}, `${t.kind === 'memory' ? 'Memory of' : t.kind === 'wait' ? 'Wall time of' : 'CPU time of'} ` +
			`${t.operation}: shorter is better. `, key('peer'), 'others', key('ours'), 'nearcpu', key('yardstick'), 'yardstick') : null,
		rows_table(t), figures(t));
}
const key = (kind) => make('span', {className: `key ${kind}`});

/* ---- suites: lines that are shown together, against their first row ---- */

const lines_of = (suite) => run.tables.filter((t) => t.benchmark === suite.benchmark && t.together);
/* How many times as good as the first row. */
const against_first = (r, m) => r.ratio_to_first?.[m.key] ? 1 / r.ratio_to_first[m.key].median : null;

function means_of(suite, m, threads) {
	return lines_of(suite)[0].rows.map((_, i) => {
		const values = lines_of(suite).filter((t) => !threads || t.threads === threads)
			.map((t) => against_first(t.rows[i], m)).filter((v) => v !== null);
		return values.length ? geometric(values) : null;
	});
}

function suite_cell(r, m) {
	const ratio = r.ratio_to_first?.[m.key];
	if (!ratio)
		return make('td', {className: 'soft', title: r.failed || r.missing || ''}, r.failed ? 'failed' : '-');
	const kind = ratio.high < .98 ? 'better' : ratio.low > 1.02 ? 'worse' : '';
	return make('td', {className: kind, title: `${three(1 / ratio.high)} to ${three(1 / ratio.low)}`}, three(1 / ratio.median));
}

function first_value(t, m) {
	const of_sample = {cpu: (s) => cpu(s) / 1e6, memory: (s) => s.peak_bytes / 1e6, p99: (s) => s.p99_ns, p999: (s) => s.p999_ns,
		wall: (s) => s.wall_ns / s.ops, unfairness: (s) => s.most / (s.fewest || 1)}[m.key];
	return t.rows[0].samples ? of(t.rows[0], of_sample).toFixed(m.decimals) : '-';
}

/* The last bound that the line has. */
function bound_cell(t) {
	const f = t.figures[t.figures.length - 1];
	return f ? make('td', {}, make('span', {className: bound_class(f.reached)},
		`${three(1 / f.at_most)} ${f.reached ? 'reached' : 'missed'}`)) : '';
}

function matrix(suite, m, is_first) {
	const shown = lines_of(suite).filter((t) => t.rows.some((r) => r.ratio_to_first?.[m.key]));
	if (!shown.length)
		return '';
	const rows = shown[0].rows, bounds = is_first && shown.some((t) => t.figures.length);
	const counts = [...new Set(shown.map((t) => t.threads))].sort((a, b) => a - b)
		.filter((n) => shown.filter((t) => t.threads === n).length > 1);
	const mean_row = (threads) => ({className: 'mean', cells: ['geometric mean', threads ? `${threads}` : 'all', '',
		...means_of(suite, m, threads).slice(1).map((v) => three(v)), ...(bounds ? [''] : [])]});
	return make('div', {}, make('h3', {}, m.title), table(
		['', 'threads', `${rows[0].name}, ${m.unit}`, ...rows.slice(1).map((r) => `${r.name} ×`), ...(bounds ? ['at least'] : [])],
		[...shown.map((t) => ({cells: [make('th', {scope: 'row', title: t.title}, t.part), `${t.threads}`, first_value(t, m),
			...t.rows.slice(1).map((r) => suite_cell(r, m)), ...(bounds ? [bound_cell(t)] : [])]})),
		mean_row(0), ...counts.map(mean_row)],
		`Of ${rows[0].name} in ${m.unit}, of the others how many times as good: above 1 is a gain.`));
}

function suite_section(suite) {
	return make('section', {id: suite.benchmark}, make('h2', {}, suite.title), make('p', {}, suite.text),
		...suite.measures.map((m, i) => matrix(suite, m, i === 0)));
}

/* What a program gets in the suite: the mean of ours over the best mean of the others. */
function suite_gain(suite) {
	const means = means_of(suite, suite.measures[0], 0), rows = lines_of(suite)[0].rows;
	const ours = rows.findIndex((r) => r.role === 'ours'), best = (i, j) => means[j] > means[i] ? j : i;
	const other = rows.map((r, i) => i).filter((i) => rows[i].role === 'peer' && means[i] !== null).reduce(best, 0);
	return ours < 0 || means[ours] === null ? null : {label: `${suite.benchmark}: geometric mean of ${lines_of(suite).length} lines`,
		gain: means[ours] / means[other], kind: means[ours] > means[other] ? 'gain' : 'loss', link: `#${suite.benchmark}`,
		cells: [times(means[ours]), rows[ours].label, times(means[other]), rows[other].label]};
}

/* ---- the page ---- */

function gains() {
	const found = [];
	run.tables.forEach((t, i) => {
		const own = !t.together && !t.apart && row_of(t, t.default), best = own && row_of(t, own.best_other);
		if (own)
			found.push({label: t.heading, gain: best ? own.ratio_to_best_other : null, kind: best ? kind_of_gain(own) : 'even', link: `#t${i}`,
				cells: [cost(t, own), own.label, best ? cost(t, best) : '-', best ? best.label : '-']});
	});
	return [...found, ...run.suites.map(suite_gain).filter(Boolean)];
}

function show_gains() {
	const all = gains(), compared = all.filter((g) => g.gain !== null);
	element('gains').hidden = !compared.length;
	element('summary').hidden = !all.length;
	bars(element('gain-chart'), compared.map((g) => ({...g, value: g.gain, text: times(g.gain),
		title: `${g.cells[0]}; ${g.cells[3]}: ${g.cells[2]}`})), 1);
	for (const g of all)
		element('summary').querySelector('tbody').append(make('tr', {}, make('th', {scope: 'row'}, make('a', {href: g.link}, g.label)),
			...g.cells.map((c, i) => make('td', {className: i % 2 ? 'text' : ''}, c)),
			make('td', {className: g.kind}, g.gain === null ? '-' : times(g.gain))));
}

function show_machine(m) {
	const add = (name, text) => element('machine').append(make('dt', {}, name), make('dd', {}, text));
	add('Processor', m.processor);
	add('CPUs', `${m.cpus.possible.count} possible, ${m.cpus.online.count} online, ${m.cpus.allowed.count} allowed; ` +
		`nodes: ${m.nodes.count}; ${(m.memory_bytes / 2 ** 30).toFixed(1)} GiB of memory`);
	add('Kernel', `${m.kernel.name} ${m.kernel.release}, ${m.kernel.machine}`);
	add('C library', m.libc);
	add('rseq', `${m.rseq.live ? 'live' : 'not live'}: ${m.rseq.why}`);
	add('Slots', `${m.slots.count} by ${m.slots.by}: ${m.slots.why}`);
	for (const [name, text] of Object.entries(m.settings))
		if (text)
			add(name, text);
	add('Built by', run.compiler);
	add('Other load', `other programs ${(run.load.others * 100).toFixed(0)} %, the hypervisor ${(run.load.stolen * 100).toFixed(0)} % of the CPU time`);
}

function show() {
	const m = run.machine, cpus = m.cpus.allowed.count;
	element('lead').textContent = `${m.processor}, ${cpus} CPU${cpus === 1 ? '' : 's'}, ${run.started.replace(/T(..:..).*/, ' $1 UTC')}; ` +
		`nearcpu ${m.nearcpu}, ${run.seconds.toFixed(0)} seconds${run.quick ? ', short measurements (--quick)' : ''}`;
	document.title = `nearcpu bench: ${m.processor}`;
	element('notice').hidden = run.load.quiet;
	element('notice').textContent = `The machine was not quiet: other programs used ${(run.load.others * 100).toFixed(0)} % of its CPU time, ` +
		`the hypervisor took ${(run.load.stolen * 100).toFixed(0)} %. Threads that share a CPU do not contend: measure again when it is idle.`;
	show_gains();
	show_machine(m);
	run.tables.forEach((t, i) => t.together || element('tables').append(section(t, `t${i}`)));
	element('tables').append(...run.suites.map(suite_section));
	element('error').hidden = true;
}
show();
