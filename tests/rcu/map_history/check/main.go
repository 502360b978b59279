// SPDX-License-Identifier: MIT

// Checks whether histories of a map are linearizable, by porcupine. Each line of standard input has
//
//	history key call return operation expected value result
//
// which are numbers, except for the operation. Calls and returns are numbered by one counter of the history,
// in which no key is there at first. A value of 0 is that of a key that is not there.
//
//	get        result is the value
//	put        result is the former value, value the new one
//	insert     the same, but value is stored only if that is 0
//	cas        value was stored, instead of expected; a value of 0: the key was removed
//	cas_fails  nothing was stored: the value was result, or, if that is -1, another one than expected
//
// usage: check        exits 1 and prints the first one that is not linearizable; the first three are
//
//	checked again with each result, in turn, changed to a value that nobody stored
//
// usage: check wrong  exits 1 and prints the first one that is linearizable
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/anishathalye/porcupine"
)

type input struct {
	operation       string
	expected, value int64
}

// step returns whether the operation can have this result, and the value after it.
func step(state, in, out interface{}) (bool, interface{}) {
	now, i, result := state.(int64), in.(input), out.(int64)

	switch i.operation {
	case "get":
		return result == now, now
	case "put":
		return result == now, i.value
	case "insert":
		if now != 0 {
			return result == now, now
		}
		return result == now, i.value
	case "cas":
		return now == i.expected, i.value
	case "cas_fails":
		return now != i.expected && (result == now || result == -1), now
	}
	panic("no operation: " + i.operation)
}

var model = porcupine.Model{
	Init: func() interface{} { return int64(0) },
	Step: step,
}

type name struct{ history, key int64 }

// read returns the operations on each key of each history, in the order in which they begin.
func read() (order []name, all map[name][]porcupine.Operation) {
	all = map[name][]porcupine.Operation{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var at name
		var o porcupine.Operation
		var i input
		var result int64

		_, err := fmt.Sscan(lines.Text(), &at.history, &at.key, &o.Call, &o.Return,
			&i.operation, &i.expected, &i.value, &result)
		if err != nil || o.Call >= o.Return {
			fmt.Fprintf(os.Stderr, "not an operation: %s\n", lines.Text())
			os.Exit(2)
		}
		o.Input, o.Output = i, result
		if all[at] == nil {
			order = append(order, at)
		}
		all[at] = append(all[at], o)
	}
	return order, all
}

// mutants counts the results that can be changed so that the history stays linearizable.
func mutants(history []porcupine.Operation) (wrong int) {
	for i := range history {
		was := history[i].Output
		if history[i].Input.(input).operation == "cas" {
			continue // it has no result
		}
		history[i].Output = int64(1) << 62
		if porcupine.CheckOperations(model, history) {
			wrong++
		}
		history[i].Output = was
	}
	return wrong
}

func main() {
	order, all := read()
	wants := len(os.Args) < 2
	operations := 0

	for _, at := range order {
		operations += len(all[at])
		if porcupine.CheckOperations(model, all[at]) != wants {
			fmt.Printf("history %d, key %d: linearizable is %v\n", at.history, at.key, !wants)
			for _, o := range all[at] {
				fmt.Println(o.Call, o.Return, o.Input, o.Output)
			}
			os.Exit(1)
		}
		if wants && at.history < 3 && mutants(all[at]) > 0 {
			fmt.Printf("history %d, key %d: a changed result is accepted\n", at.history, at.key)
			os.Exit(1)
		}
	}
	fmt.Printf("%d operations in %d histories\n", operations, len(order))
	if operations == 0 {
		os.Exit(1)
	}
}
