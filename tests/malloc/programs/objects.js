// SPDX-License-Identifier: MIT
// Objects, strings, buffers and workers.
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');

function work(seed) {
	const map = new Map();
	let total = 0;
	for (let i = 0; i < 60000; i++) {
		const key = 'k' + (i * seed) % 7919;
		const list = map.get(key) || [];
		list.push({i, text: 'v'.repeat(i % 50)});
		map.set(key, list.slice(-5));
	}
	for (const list of map.values())
		for (const item of list)
			total += item.i + item.text.length;
	for (let i = 1; i < 200; i++) {
		const b = Buffer.alloc(i * 997, i % 256);
		total += b[b.length - 1] + Buffer.concat([b, b]).length;
	}
	return total + JSON.stringify([...map]).length;
}

if (!isMainThread) {
	parentPort.postMessage(work(workerData));
} else {
	const results = [];
	let left = 3;
	for (let i = 0; i < 3; i++)
		new Worker(__filename, {workerData: i + 3}).on('message', (n) => {
			results[i] = n;
			if (--left === 0)
				console.log(work(2), results.join(' '));
		});
}
