// Package plan holds the names of things: jobs, pipelines, vertices, task groups, attempts, and their text
// forms. Its children turn a job file into a plan:
//
//	text ──config──▶ Job ──logical──▶ LogicalDag ──physical──▶ PhysicalPlan
//	                        option, schema                     state (life cycles)
//
// Everything under plan is pure: no I/O, no goroutines, no clock. What needs the outside (a table's columns)
// is asked through an interface that plan/logical declares and cmd fills.
package plan
