module nearcpu/heap_pprof

go 1.19

require github.com/google/pprof v0.0.0-20230207041349-798e818bf904

require (
	github.com/chzyer/readline v1.5.0 // indirect
	github.com/ianlancetaylor/demangle v0.0.0-20220319035150-800ac71e25c2 // indirect
	golang.org/x/sys v0.0.0-20220310020820-b874c991c1a5 // indirect
)
