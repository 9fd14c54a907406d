package file

import (
	"fmt"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/worker/connector"
	"strait/worker/format/field"
)

// Formats that SeaTunnel's file connectors know.
var formatNames = []string{"text", "csv", "json", "parquet", "orc", "excel", "xml", "binary", "avro", "markdown", "pdf", "word",
	"canal_json", "debezium_json", "maxwell_json"}

// The formats of this build.
const (
	formatText    = "text"
	formatCSV     = "csv"
	formatJSON    = "json"
	formatParquet = "parquet"
)

var builtFormats = map[string]bool{formatText: true, formatCSV: true, formatJSON: true, formatParquet: true}

var codecNames = []string{"none", "lzo", "snappy", "lz4", "gzip", "brotli", "zstd", "zlib"}

const laterFormats = "only for formats of later builds"

// tableOptions are those of one table of a source.
func tableOptions() []option.Option {
	return []option.Option{
		{Name: "path", Type: option.TString, Doc: "File or folder to read; folders are read with all below them. Columns are added for folders named key=value."},
		{Name: "file_format_type", Type: option.TEnum, Enum: formatNames, Doc: "Format of the files: text, csv, json (one object a line) or parquet."},
		{Name: "schema", Type: option.TObject, Columns: true, Doc: "The columns of the files. Without it text, csv and json give one column, content, with each line; parquet brings its own."},
		{Name: "read_columns", Type: option.TStrings, Doc: "Columns to read, in this order; needs a schema except for parquet."},
		{Name: "field_delimiter", Aliases: []string{"delimiter"}, Type: option.TString, Doc: "What separates fields: one or more characters. Default: U+0001 for text, a comma for csv."},
		{Name: "row_delimiter", Type: option.TString, Doc: "What separates rows. Default: a line feed, with or without carriage return."},
		{Name: "quote_char", Type: option.TString, Default: `"`, Doc: "csv: the character around fields that hold delimiters, quotes or line ends; empty: none."},
		{Name: "escape_char", Type: option.TString, Doc: "csv: a character that takes the meaning of the next one away, in and outside quotes. Without it, quotes inside a field are doubled."},
		{Name: "null_format", Type: option.TString, Doc: "Text that stands for null, besides the empty text."},
		{Name: "csv_use_header_line", Type: option.TBool, Default: "false", Doc: "csv: the first line names the columns; the schema's columns are found by name, others are left out."},
		{Name: "skip_header_row_number", Type: option.TInt, Default: "0", Min: option.Bound(0), Doc: "Rows to leave out at the start of every file."},
		{Name: "date_format", Type: option.TString, Doc: "Java pattern of dates. Default: yyyy-MM-dd, and other usual forms."},
		{Name: "datetime_format", Type: option.TString, Doc: "Java pattern of timestamps. Default: yyyy-MM-dd HH:mm:ss, and other usual forms."},
		{Name: "time_format", Type: option.TString, Doc: "Java pattern of times of day. Default: HH:mm:ss, with or without a fraction."},
		{Name: "parse_partition_from_path", Type: option.TBool, Default: "true", Doc: "Add a string column for every folder named key=value on the path."},
		{Name: "read_partitions", Type: option.TStrings, Doc: "Read only files whose path holds one of these texts."},
		{Name: "file_filter_pattern", Type: option.TString, Doc: "Regular expression that the whole file name, or the whole path, must match."},
		{Name: "filename_extension", Type: option.TString, Doc: "Read only files with this extension."},
		{Name: "file_filter_modified_start", Type: option.TString, Doc: "Read only files modified at or after this time (yyyy-MM-dd HH:mm:ss, local)."},
		{Name: "file_filter_modified_end", Type: option.TString, Doc: "Read only files modified before this time (yyyy-MM-dd HH:mm:ss, local)."},
		{Name: "recursive_file_scan", Type: option.TBool, Default: "true", Doc: "Read the folders below path, too."},
		{Name: "compress_codec", Type: option.TEnum, Enum: codecNames, Default: "none", Doc: "Compression of text, csv and json files; parquet brings its own. Only none is in this build."},
		{Name: "archive_compress_codec", Type: option.TEnum, Enum: []string{"none", "zip", "tar", "tar_gz", "gz"}, Default: "none", Doc: "Archives around the files. Only none is in this build."},
		{Name: "encoding", Type: option.TString, Default: "UTF-8", Doc: "Character set of text, csv and json files. Only UTF-8 is in this build."},
		{Name: "enable_file_split", Type: option.TBool, Default: "true", Doc: "Read a big file in several splits, cut where a record begins (text, csv, json) or by row groups (parquet)."},
		{Name: "file_split_size", Type: option.TBytes, Default: "64MiB", Min: option.Bound(1), Doc: "Size of a split of a big file."},
		{Name: "discovery_mode", Type: option.TEnum, Enum: []string{"once", "continuous"}, Default: "once", Doc: "Read what is there and end, or go on looking for files. Only once is in this build."},
		{Name: "scan_interval", Type: option.TString, Doc: "Pause between two looks with discovery_mode = continuous.", Hidden: true},
		{Name: "start_mode", Type: option.TEnum, Enum: []string{"earliest", "latest"}, Default: "earliest", Doc: "Where discovery_mode = continuous begins.", Hidden: true},
		{Name: "sync_mode", Type: option.TEnum, Enum: []string{"full", "update"}, Default: "full", Doc: "Read all files, or those that are newer than at a target (binary only). Only full is in this build.", Hidden: true},
		{Name: "sheet_name", Type: option.TString, Doc: "excel: the sheet to read (" + laterFormats + ").", Hidden: true},
		{Name: "excel_engine", Type: option.TString, Doc: "excel: has no meaning here (" + laterFormats + ").", Hidden: true},
		{Name: "xml_row_tag", Type: option.TString, Doc: "xml: the tag of a row (" + laterFormats + ").", Hidden: true},
		{Name: "xml_use_attr_format", Type: option.TBool, Doc: "xml: values stand in attributes (" + laterFormats + ").", Hidden: true},
		{Name: "binary_chunk_size", Type: option.TInt, Doc: "binary: bytes of a row (" + laterFormats + ").", Hidden: true},
		{Name: "binary_complete_file_mode", Type: option.TBool, Doc: "binary: a file is a row (" + laterFormats + ").", Hidden: true},
		{Name: "sort_files_by_modification_time", Type: option.TBool, Default: "false", Doc: "Read older files first; otherwise by path."},
	}
}

// onlySink are keys that job files give a source although only a sink reads them.
var onlySink = map[string]string{
	"partition_dir_expression":         "only the sink has it",
	"is_partition_field_write_in_file": "only the sink has it",
	"file_name_expression":             "only the sink has it",
	"filename_time_format":             "only the sink has it",
	"is_enable_transaction":            "only the sink has it",
	"hadoop_conf":                      "there is no Hadoop here",
	"hdfs_site_path":                   "there is no Hadoop here",
}

func sourceSpec() option.Spec {
	sub := option.Spec{Options: tableOptions(), Ignored: onlySink}
	for i := range sub.Options {
		if o := &sub.Options[i]; o.Name == "path" || o.Name == "file_format_type" {
			o.Required = true
		}
	}
	return option.Spec{
		Options: append(tableOptions(),
			option.Option{Name: "tables_configs", Type: option.TObjects, Sub: &sub, Doc: "Several tables; each has the options of a source of its own."}),
		Ignored: onlySink,
		Rules: []option.Rule{
			{Kind: option.ExactlyOne, Of: []string{"path", "tables_configs"}},
			{Kind: option.Conditional, When: "path", Of: []string{"file_format_type"}},
		},
	}
}

func sinkSpec() option.Spec {
	return option.Spec{
		Options: []option.Option{
			{Name: "path", Type: option.TString, Required: true, Doc: "Folder to write to. ${database_name}, ${schema_name} and ${table_name} stand for those of the table."},
			{Name: "tmp_path", Type: option.TString, Default: "/tmp/seatunnel", Doc: "Folder for files that are not committed yet. On the file system of path, a commit is a rename; elsewhere it copies."},
			{Name: "file_format_type", Type: option.TEnum, Enum: formatNames, Default: "csv", Doc: "Format of the files: text, csv, json (one object a line) or parquet."},
			{Name: "custom_filename", Type: option.TBool, Doc: "false: name files by the transaction, whatever file_name_expression says."},
			{Name: "file_name_expression", Type: option.TString, Default: "${transactionId}", Doc: "Names of files: text with ${transactionId}, ${now} and ${uuid}. A part number and the extension follow. With transactions, ${transactionId}_ goes before a name that has none."},
			{Name: "filename_time_format", Type: option.TString, Default: "yyyy.MM.dd", Doc: "Java pattern of ${now}."},
			{Name: "filename_extension", Type: option.TString, Doc: "Extension instead of the format's own."},
			{Name: "single_file_mode", Type: option.TBool, Default: "false", Doc: "One file for each subtask, checkpoint and folder, without a part number; batch_size does not count."},
			{Name: "create_empty_file_when_no_data", Type: option.TBool, Default: "false", Doc: "Write a file (with its header) even when there was no row."},
			{Name: "field_delimiter", Aliases: []string{"delimiter"}, Type: option.TString, Doc: "What separates fields. Default: U+0001 for text, a comma for csv."},
			{Name: "row_delimiter", Type: option.TString, Default: "\n", Doc: "What ends a row in text, csv and json."},
			{Name: "null_format", Type: option.TString, Doc: "Text for null in text and csv. Default: nothing."},
			{Name: "csv_string_quote_mode", Type: option.TEnum, Enum: []string{"MINIMAL", "ALL", "NONE"}, Default: "MINIMAL", Doc: "csv: which strings stand in quotes."},
			{Name: "enable_header_write", Type: option.TBool, Default: "false", Doc: "text, csv: begin every file with the names of the columns. Without a row there is no file."},
			{Name: "date_format", Type: option.TString, Doc: "Java pattern of dates in text and csv. Default: yyyy-MM-dd."},
			{Name: "datetime_format", Type: option.TString, Doc: "Java pattern of timestamps in text and csv. Default: yyyy-MM-dd HH:mm:ss."},
			{Name: "time_format", Type: option.TString, Doc: "Java pattern of times of day in text and csv. Default: HH:mm:ss."},
			{Name: "have_partition", Type: option.TBool, Doc: "false: write no partition folders, whatever partition_by says."},
			{Name: "partition_by", Type: option.TStrings, Doc: "Columns whose values name the folders below path."},
			{Name: "partition_dir_expression", Type: option.TString, Default: "${k0}=${v0}/${k1}=${v1}/.../${kn}=${vn}/", Doc: "Folder of a row: ${k0} is the name of the first partition column, ${v0} its value."},
			{Name: "is_partition_field_write_in_file", Type: option.TBool, Default: "false", Doc: "Write the partition columns into the files, too."},
			{Name: "sink_columns", Type: option.TStrings, Doc: "Columns to write, in this order. Default: all."},
			{Name: "is_enable_transaction", Type: option.TBool, Default: "true", Doc: "Files appear when their checkpoint is committed, exactly once. false: they appear at the checkpoint before it is committed, at least once."},
			{Name: "batch_size", Type: option.TInt, Default: "1000000", Min: option.Bound(1), Doc: "Rows of a file; the next one goes to a new part."},
			{Name: "compress_codec", Type: option.TEnum, Enum: codecNames, Default: "none", Doc: "Compression: for parquet snappy, gzip, zstd, lz4 or brotli; for other formats only none is in this build."},
			{Name: "parquet_avro_write_timestamp_as_int96", Type: option.TBool, Default: "false", Doc: "parquet: write timestamps as INT96, for old readers."},
			{Name: "parquet_avro_write_fixed_as_int96", Type: option.TStrings, Doc: "parquet: columns of 12 bytes to write as INT96. Not in this build."},
			{Name: "encoding", Type: option.TString, Default: "UTF-8", Doc: "Character set of text, csv and json files. Only UTF-8 is in this build."},
			{Name: "schema_save_mode", Type: option.TEnum, Enum: []string{"RECREATE_SCHEMA", "CREATE_SCHEMA_WHEN_NOT_EXIST", "ERROR_WHEN_SCHEMA_NOT_EXIST", "IGNORE"}, Default: "CREATE_SCHEMA_WHEN_NOT_EXIST", Doc: "What to do with the folder before the job. Only CREATE_SCHEMA_WHEN_NOT_EXIST and IGNORE are in this build."},
			{Name: "data_save_mode", Type: option.TEnum, Enum: []string{"DROP_DATA", "APPEND_DATA", "ERROR_WHEN_DATA_EXISTS"}, Default: "APPEND_DATA", Doc: "What to do with files that are there before the job. Only APPEND_DATA is in this build."},
			{Name: "multi_table_sink_replica", Type: option.TInt, Doc: "Has no meaning here: all tables of a subtask share its writer.", Hidden: true},
			{Name: "max_rows_in_memory", Type: option.TInt, Doc: "excel (" + laterFormats + ").", Hidden: true},
			{Name: "sheet_name", Type: option.TString, Doc: "excel (" + laterFormats + ").", Hidden: true},
			{Name: "sheet_max_rows", Type: option.TInt, Doc: "excel (" + laterFormats + ").", Hidden: true},
			{Name: "xml_root_tag", Type: option.TString, Doc: "xml (" + laterFormats + ").", Hidden: true},
			{Name: "xml_row_tag", Type: option.TString, Doc: "xml (" + laterFormats + ").", Hidden: true},
			{Name: "xml_use_attr_format", Type: option.TBool, Doc: "xml (" + laterFormats + ").", Hidden: true},
			{Name: "merge_update_event", Type: option.TBool, Doc: "change formats (" + laterFormats + ").", Hidden: true},
		},
		Ignored: map[string]string{
			"save_mode":              "it is an older name without effect; use data_save_mode",
			"archive_compress_codec": "SeaTunnel does not write archives either",
		},
	}
}

// notInBuild is the mistake of an option value that a later build brings.
func notInBuild(v option.Values, name, remedy, format string, args ...any) error {
	return &fault.Mistake{Pos: posOf(v, name), Path: v.Path(name), Found: fmt.Sprintf(format, args...) + " is not in this build",
		Remedy: remedy, Err: connector.ErrNotInBuild}
}

// checkBuilt refuses what later builds bring.
func checkBuilt(v option.Values) error {
	format := v.String("file_format_type")
	if !builtFormats[format] {
		return notInBuild(v, "file_format_type", "write text, csv, json or parquet", "format %s", format)
	}
	if format != formatParquet {
		if c := v.String("compress_codec"); c != "none" {
			return notInBuild(v, "compress_codec", "write none", "compression %s of %s files", c, format)
		}
		if e := v.String("encoding"); !isUTF8(e) {
			return notInBuild(v, "encoding", "write UTF-8", "encoding %s", e)
		}
	}
	return nil
}

func isUTF8(name string) bool {
	switch strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(name), "_", "-")) {
	case "UTF-8", "UTF8", "US-ASCII", "ASCII", "":
		return true
	}
	return false
}

// formatsOf compiles the date patterns of a block.
func formatsOf(v option.Values, l *fault.List) *field.Formats {
	var out [3]string
	for i, name := range []string{"date_format", "time_format", "datetime_format"} {
		out[i] = v.String(name)
		if out[i] == "" {
			continue
		}
		if _, err := field.ParsePattern(out[i]); err != nil {
			l.Add(posOf(v, name), v.Path(name), err.Error(), "write a Java pattern such as yyyy-MM-dd HH:mm:ss")
			out[i] = ""
		}
	}
	f, err := field.NewFormats(out[0], out[1], out[2])
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return f
}

func posOf(v option.Values, name string) fault.Position {
	if n := v.Node(name); n != nil {
		return n.Pos
	}
	if n := v.Raw(); n != nil {
		return n.Pos
	}
	return fault.Position{}
}

// oneByte reads an option that is one ASCII character or empty.
func oneByte(v option.Values, name string, l *fault.List) byte {
	s := v.String(name)
	switch {
	case s == "":
		return 0
	case len(s) == 1 && s[0] < 0x80:
		return s[0]
	}
	l.Add(posOf(v, name), v.Path(name), fmt.Sprintf("%q is not one ASCII character", s), "write one character")
	return 0
}
