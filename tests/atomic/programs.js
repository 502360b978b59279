// SPDX-License-Identifier: MIT
// Work for JavaScriptCore: objects, garbage, code that is compiled at run time, shared memory.
function fibonacci(n) {
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

let kept = new Map(), sum = 0;
for (let round = 0; round < 40; round++) {
	let list = [];
	for (let i = 0; i < 20000; i++)
		list.push({ number: i * round % 977, name: "n" + i });
	list.sort((a, b) => a.number - b.number || (a.name < b.name ? -1 : 1));
	kept.set(round, list.filter((o) => o.number % 100 === round).map((o) => o.name).join());
	sum += list[777].number;
}
print(sum, fibonacci(24));
print([...kept.values()].map((s) => s.length).join());

const words = new Int32Array(new SharedArrayBuffer(64));
for (let i = 0; i < 100000; i++)
	Atomics.add(words, i % 16, i);
print(words.join());
print(JSON.stringify(/(\d+)-(?<word>\w+)/u.exec("17-seventeen").groups));
