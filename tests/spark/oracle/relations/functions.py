"""Names of functions, in small letters, by what is known of their results when a task is retried."""

OPERATORS = frozenset(
    (
        "!",
        "%",
        "&",
        "*",
        "+",
        "-",
        "/",
        "<",
        "<=",
        "<=>",
        "=",
        "==",
        ">",
        ">=",
        "^",
        "and",
        "in",
        "isnotnull",
        "isnull",
        "negative",
        "not",
        "or",
        "positive",
        "substr",
        "substring",
        "when",
        "|",
        "~",
        "like",
        "rlike",
    )
)
BY_CLOCK = frozenset(("curtime", "current_time", "now"))
BY_ORDER = frozenset(
    (
        "monotonically_increasing_id",
        "rand",
        "randn",
        "random",
        "randstr",
        "shuffle",
        "spark_partition_id",
        "uniform",
        "uuid",
    )
)
# Names of PySpark's that run other functions, or are no functions of rows.
OTHERS = frozenset(
    (
        "aes_encrypt",
        "kll_sketch_merge_bigint",
        "kll_sketch_merge_double",
        "kll_sketch_merge_float",
        "call_function",
        "call_udf",
        "expr",
        "java_method",
        "reflect",
        "try_reflect",
        "udf",
        "udtf",
        "arrow_udf",
        "arrow_udtf",
        "pandas_udf",
        "unwrap_udt",
        "broadcast",
        # where there are functions of Python, Spark reads ahead of them
        "input_file_block_length",
        "input_file_block_start",
        "input_file_name",
    )
)
AGGREGATES = frozenset(("approx_count_distinct", "bool_and", "bool_or", "count", "count_if", "every", "some"))
AGGREGATES_BY_TYPE = frozenset(("bit_and", "bit_or", "bit_xor", "max", "min", "sum"))
WINDOWS = frozenset(
    (
        "any_value",
        "counter_diff",
        "cume_dist",
        "dense_rank",
        "first",
        "first_value",
        "lag",
        "last",
        "last_value",
        "lead",
        "nth_value",
        "ntile",
        "percent_rank",
        "rank",
        "row_number",
    )
)


# Makes as many rows as its argument says.
GENERATORS = frozenset(
    (
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "stack",
        "variant_explode",
        "variant_explode_outer",
    )
)
