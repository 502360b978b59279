// SPDX-License-Identifier: MIT

// Checks, by pprof's own package, a heap profile that nearcpu heap has converted: it is valid, and has the same
// samples as the malloc's own file, read by that package.
//
// usage: check FILE CONVERTED  exits 1 and prints the first difference
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

func fail(words ...interface{}) {
	fmt.Println(words...)
	os.Exit(1)
}

func read(path string) *profile.Profile {
	file, err := os.Open(path)
	if err != nil {
		fail(err)
	}
	p, err := profile.Parse(file)
	if err != nil {
		fail(path, err)
	}
	if err = p.CheckValid(); err != nil {
		fail(path, err)
	}
	return p
}

func sample(s *profile.Sample) string {
	text := fmt.Sprint(s.Value, s.Label, s.NumLabel)
	for _, l := range s.Location {
		text += fmt.Sprintf(" %#x", l.Address)
		if l.Mapping != nil {
			text += "=" + l.Mapping.File
		}
	}
	return text
}

func kinds(p *profile.Profile) string {
	text := fmt.Sprint(p.PeriodType.Type, p.PeriodType.Unit, p.Period)
	for _, t := range p.SampleType {
		text += fmt.Sprint(" ", t.Type, "/", t.Unit)
	}
	return text
}

func main() {
	is, converted := read(os.Args[1]), read(os.Args[2])
	if kinds(is) != kinds(converted) {
		fail(kinds(is), "is not", kinds(converted))
	}
	if len(is.Sample) != len(converted.Sample) || len(is.Sample) == 0 {
		fail(len(is.Sample), "samples are", len(converted.Sample))
	}
	for i, s := range is.Sample {
		if sample(s) != sample(converted.Sample[i]) {
			fail(sample(s), "is not", sample(converted.Sample[i]))
		}
	}
	if is.Mapping[0].File != converted.Mapping[0].File {
		fail("the program is", is.Mapping[0].File, "and not", converted.Mapping[0].File)
	}
	if converted.DefaultSampleType != "inuse_space" || converted.TimeNanos == 0 {
		fail(converted.DefaultSampleType, converted.TimeNanos)
	}
}
