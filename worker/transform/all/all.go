package all

import (
	_ "strait/worker/transform/project" // Copy, FieldMapper, Filter
	_ "strait/worker/transform/rowkind" // FilterRowKind, RowKindExtractor
	_ "strait/worker/transform/text"    // Replace, Split
)
