// Package assert is the sink Assert: it fails the job when rows or tables break a rule.
//
//	writer, each row:                 field_rules: type and value of a column        → fatal error at once
//	aggregated committer, one time:   row_rules, table-names, catalog_table_rule     → fatal error at the commit
//
// Each writer prepares how many rows of each table it has seen in this attempt, also when there were none. The
// committer adds the counts of all subtasks on all workers up and judges once. A job without end never has its
// last row: there MIN_ROW and table-names are not judged.
//
// Rules stand for every table that arrives, each judged by itself, unless rules.tables_configs names tables.
//
// Where Strait is stricter than SeaTunnel: a null does not satisfy equals_to, and a column, rule or literal that
// cannot fit the table is a mistake before the job runs. Where it is laxer: column_rule compares only what it
// states, and catalog_name is not compared, since tables have no catalog here.
package assert
