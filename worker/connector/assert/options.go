package assert

import "strait/plan/option"

const (
	ruleNotNull   = "NOT_NULL"
	ruleNull      = "NULL"
	ruleMin       = "MIN"
	ruleMax       = "MAX"
	ruleMinLength = "MIN_LENGTH"
	ruleMaxLength = "MAX_LENGTH"
	ruleMinRow    = "MIN_ROW"
	ruleMaxRow    = "MAX_ROW"
	ruleEquals    = "equals_to" // an option of its own in a job file
)

var valueSpec = option.Spec{
	Options: []option.Option{
		{Name: "rule_type", Type: option.TEnum, Enum: []string{ruleNotNull, ruleNull, ruleMin, ruleMax, ruleMinLength, ruleMaxLength},
			Doc: "What the value must satisfy. MIN and MAX want a number, the lengths count the characters of the value's text."},
		{Name: "rule_value", Type: option.TFloat, Doc: "The bound of MIN, MAX, MIN_LENGTH and MAX_LENGTH; it is allowed itself."},
		{Name: "equals_to", Type: option.TAny, Columns: true, Doc: "The value itself, of any type: rows and arrays as lists, rows also as objects, maps as objects, bytes as base64. Null is not equal to anything."},
	},
	Rules: []option.Rule{
		{Kind: option.AtLeastOne, Of: []string{"rule_type", "equals_to"}},
		{Kind: option.Conditional, When: "rule_type", Is: []string{ruleMin, ruleMax, ruleMinLength, ruleMaxLength}, Of: []string{"rule_value"}},
	},
}

var fieldSpec = option.Spec{Options: []option.Option{
	{Name: "field_name", Type: option.TString, Required: true, Doc: "The column."},
	{Name: "field_type", Type: option.TAny, Columns: true, Doc: "The type its values must have: a type word, or an object of fields for a row."},
	{Name: "field_value", Type: option.TObjects, Sub: &valueSpec, Doc: "Rules for its values; each value must satisfy all of them."},
}}

var rowSpec = option.Spec{Options: []option.Option{
	{Name: "rule_type", Type: option.TEnum, Required: true, Enum: []string{ruleMinRow, ruleMaxRow}, Doc: "Bound of the number of rows of the table, over all subtasks."},
	{Name: "rule_value", Type: option.TFloat, Required: true, Doc: "The bound; it is allowed itself."},
}}

var catalogSpec = option.Spec{Options: []option.Option{
	{Name: "table_path", Type: option.TString, Doc: "Name of the table: database.schema.table."},
	{Name: "table_identifier_rule", Type: option.TObject, Doc: "Name of the table and its catalog.", Sub: &option.Spec{Options: []option.Option{
		{Name: "catalog_name", Type: option.TString, Doc: "Not compared: tables have no catalog here."},
		{Name: "table", Type: option.TString, Required: true, Doc: "Name of the table: database.schema.table."},
	}}},
	{Name: "primary_key_rule", Type: option.TObject, Doc: "The primary key.", Sub: &option.Spec{Options: []option.Option{
		{Name: "primary_key_name", Type: option.TString, Doc: "Its name."},
		{Name: "primary_key_columns", Type: option.TStrings, Doc: "Its columns, in any order."},
	}}},
	{Name: "constraint_key_rule", Type: option.TObjects, Doc: "All other keys, in any order.", Sub: &option.Spec{Options: []option.Option{
		{Name: "constraint_key_name", Type: option.TString, Doc: "Its name."},
		{Name: "constraint_key_type", Type: option.TEnum, Enum: []string{"INDEX_KEY", "UNIQUE_KEY", "FOREIGN_KEY", "VECTOR_INDEX_KEY"}, Doc: "Its kind."},
		{Name: "constraint_key_columns", Type: option.TObjects, Doc: "Its columns in order.", Sub: &option.Spec{Options: []option.Option{
			{Name: "constraint_key_column_name", Type: option.TString, Required: true, Doc: "The column."},
			{Name: "constraint_key_sort_type", Type: option.TEnum, Enum: []string{"ASC", "DESC"}, Doc: "Its order."},
		}}},
	}}},
	{Name: "column_rule", Type: option.TObjects, Doc: "All columns, in any order. What a rule does not state is not compared.", Sub: &option.Spec{Options: []option.Option{
		{Name: "name", Type: option.TString, Required: true, Doc: "The column."},
		{Name: "type", Type: option.TAny, Columns: true, Required: true, Doc: "Its type: a type word, or an object of fields for a row."},
		{Name: "column_length", Aliases: []string{"columnLength"}, Type: option.TInt, Doc: "Its length."},
		{Name: "column_scale", Aliases: []string{"columnScale"}, Type: option.TInt, Doc: "Its scale; for times the digits behind the second."},
		{Name: "nullable", Type: option.TBool, Doc: "Whether it may be null."},
		{Name: "default_value", Aliases: []string{"defaultValue"}, Type: option.TAny, Columns: true, Doc: "Its default, as text."},
		{Name: "comment", Type: option.TString, Doc: "Its comment."},
	}}},
}}

// tableRules are the rules of one table. rule_ruls stands in SeaTunnel's own job files, where nothing reads it:
// a rule that somebody wrote down is judged here.
func tableRules() []option.Option {
	return []option.Option{
		{Name: "row_rules", Aliases: []string{"rule_ruls"}, Type: option.TObjects, Sub: &rowSpec, Doc: "Rules for the number of rows."},
		{Name: "field_rules", Type: option.TObjects, Sub: &fieldSpec, Doc: "Rules for columns."},
		{Name: "catalog_table_rule", Type: option.TObject, Sub: &catalogSpec, Doc: "Rules for the table itself: its name, keys and columns."},
	}
}

func spec() option.Spec {
	table := &option.Spec{
		Options: append([]option.Option{{Name: "table_path", Type: option.TString, Required: true, Doc: "The table these rules are for: database.schema.table."}}, tableRules()...),
	}
	rules := &option.Spec{
		Options: append(tableRules(),
			option.Option{Name: "table-names", Type: option.TStrings, Doc: "The tables of which at least one row arrives: these and no others."},
			option.Option{Name: "tables_configs", Type: option.TObjects, Sub: table, Doc: "Rules for single tables, instead of rules for every table."}),
		Rules: []option.Rule{{Kind: option.AtLeastOne, Of: []string{"row_rules", "field_rules", "catalog_table_rule", "table-names", "tables_configs"}}},
	}
	return option.Spec{Options: []option.Option{
		{Name: "rules", Type: option.TObject, Required: true, Sub: rules, Doc: "What must hold."},
	}}
}
