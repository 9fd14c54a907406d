// Package console is the sink Console: it prints rows as SeaTunnel does.
//
//	output rowType: name<STRING>, age<INT>
//	subtaskIndex=0  rowIndex=1:  SeaTunnelRow#tableId=fake SeaTunnelRow#kind=INSERT : Alice, 30
//
// One line a row: line ends, tabs and other control characters of a text are shown as \n, \t and \u001b, so that
// a value can neither break a line nor steer the terminal. rowIndex counts the rows of the subtask. Values are
// written as worker/format/value says; null is "null".
//
// A line is never torn: a writer collects whole lines and hands at most 64 KiB of them to one Write of the
// shared standard output, at the latest at the end of a batch. Printing commits nothing: at least once.
package console
