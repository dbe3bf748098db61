"""Catalyst's expressions, sorted by what is known of their values when a task is retried."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PACKAGE = "org.apache.spark.sql.catalyst.expressions."

OF_ARGUMENTS = _names(
    """
    Abs Acos Acosh Add AddMonths AesDecrypt Alias And ApproxTopKEstimate ArrayAggregate ArrayAppend
    ArrayBinarySearch ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayExists ArrayFilter
    ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition ArrayPrepend
    ArrayRemove ArrayRepeat ArraySize ArraySort ArraysOverlap ArraysZip ArrayTransform ArrayUnion Ascii
    Asin Asinh AssertTrue Atan Atan2 Atanh AtLeastNNonNulls Base32 Base64 Between Bin BinaryPad
    BinaryPredicate BitLength BitmapBitPosition BitmapBucketNumber BitmapCount BitwiseAnd BitwiseCount
    BitwiseGet BitwiseNot BitwiseOr BitwiseXor BRound Bucket CaseWhen Cast CastTimestampNTZToLong Cbrt
    Ceil CheckOverflow CheckOverflowInSum CheckOverflowInTableInsert Chr Coalesce Collate Collation
    CollationAwareMurmur3Hash CollationAwareXxHash64 CollationKey CommonExpressionDef CommonExpressionRef
    Concat ConcatWs Contains Conv
    ConvertTimezone Cos Cosh Cot Crc32 CreateArray CreateMap CreateNamedStruct Csc CsvToStructs
    CurrentBatchTimestamp CurrentCatalog CurrentDatabase CurrentDate CurrentPath CurrentTime CurrentTimestamp
    CurrentTimestampNanos CurrentTimeZone CurrentUser DateAdd DateAddInterval DateAddYMInterval DateDiff
    DateFormatClass DateFromUnixDate DateSub DatetimeSub DayName DayOfMonth DayOfWeek DayOfYear Days
    DecimalAddNoOverflowCheck DecimalDivideWithOverflowCheck DecimalSubtractNoOverflowCheck Decode
    DirectShufflePartitionID Divide DivideDTInterval DivideInterval DivideYMInterval DropField ElementAt
    Elt Empty2Null Encode EndsWith EqualNull EqualNullSafe EqualTo EulerNumber Exp Explode Expm1 Extract
    ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes
    ExtractANSIIntervalMonths ExtractANSIIntervalSeconds ExtractANSIIntervalYears ExtractIntervalDays
    ExtractIntervalHours ExtractIntervalMinutes ExtractIntervalMonths ExtractIntervalSeconds
    ExtractIntervalYears Factorial FindInSet Flatten Floor FormatNumber FormatString FromUnixTime
    FromUTCTimestamp GeneratorOuter Get GetArrayItem GetArrayStructFields GetJsonObject GetMapValue
    GetStructField GetTimestamp GreaterThan GreaterThanOrEqual Greatest Hex HiveHash HllSketchEstimate
    HllUnion Hmac Hour Hours HoursOfTime Hypot If ILike In InitCap Inline InSet IntegralDivide IsNaN
    IsNotNull IsNull IsValidUTF8 IsValidVariant IsVariantNull JaroWinkler JsonObjectKeys JsonToStructs
    JsonTuple KllSketchGetNBigint KllSketchGetNDouble KllSketchGetNFloat KllSketchGetQuantileBigint
    KllSketchGetQuantileDouble KllSketchGetQuantileFloat KllSketchGetRankBigint KllSketchGetRankDouble
    KllSketchGetRankFloat
    KllSketchToStringBigint KllSketchToStringDouble KllSketchToStringFloat KnownFloatingPointNormalized
    KnownNotContainsNull KnownNotNull KnownNullable LambdaFunction LastDay Least Left Length
    LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny Literal LocalTimestamp
    LocalTimestampNanos Log Log10 Log1p Log2 Logarithm Lower Luhncheck MakeDate MakeDecimal
    MakeDTInterval MakeInterval MakeTime MakeTimestamp MakeTimestampFromDateTime MakeTimestampLTZ
    MakeTimestampLTZNanos MakeTimestampNTZ MakeTimestampNTZNanos MakeValidUTF8 MakeYMInterval MapConcat
    MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapSort MapValues
    MapZipWith Mask Md5 MicrosToTimestamp MillisToTimestamp Minute MinutesOfTime Month MonthName Months
    MonthsBetween MultiCommutativeOp MultiGetJsonObject Multiply MultiplyDTInterval MultiplyInterval
    MultiplyYMInterval Murmur3Hash NamedLambdaVariable NanosToTimestamp NaNvl NextDay Not NotLikeAll
    NotLikeAny Now NullIf NullIfResult NullIfZero Nvl Nvl2 OctetLength Or Overlay ParseJson ParseToDate
    ParseToTimestamp ParseUrl Pi Pmod PosExplode Pow PreciseTimestampConversion PromotePrecision Quarter
    Quote RaiseError RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr
    Remainder ReplicateRows ResolvedCollation Reverse Right Rint RLike Round RoundCeil RoundFloor
    SchemaOfCsv SchemaOfJson SchemaOfVariant SchemaOfXml Sec Second SecondsOfTime
    SecondsOfTimeWithFraction SecondsToTimestamp SecondWithFraction SecondWithFractionNanos Sentences
    Sequence Sha1 Sha2 ShiftLeft ShiftRight ShiftRightUnsigned Signum Sin Sinh Size Slice SortArray
    SortOrder SortPrefix SoundEx SpecifiedWindowFrame SplitPart Sqrt ST_AsBinary ST_GeogFromWKB
    ST_GeomFromWKB ST_SetSrid ST_Srid Stack StartsWith StringDecode StringInstr
    StringInstrWithOccurrence StringLocate StringLPad StringRepeat StringReplace StringRPad StringSpace
    StringSplit StringSplitSQL StringToMap StringTranslate StringTrim StringTrimBoth StringTrimLeft
    StringTrimRight StructsToCsv StructsToJson StructsToXml Substring SubstringIndex Subtract
    SubtractDates SubtractTimes SubtractTimestamps Tan Tanh ThetaDifference ThetaIntersection
    ThetaSketchEstimate ThetaUnion TimeAdd TimeAddInterval TimeBucket TimeDiff TimeFromMicros
    TimeFromMillis TimeFromSeconds TimestampAdd TimestampAddInterval TimestampAddYMInterval
    TimestampDiff TimeToMicros TimeToMillis TimeToSeconds TimeTrunc TimeWindow ToBinary ToCharacter
    ToDegrees ToJavaArray ToNumber ToPrettyString ToRadians ToTime ToUnixTimestamp ToUTCTimestamp
    ToVariantObject TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryAesDecrypt
    TryDivide TryElementAt TryEval TryMakeInterval TryMakeTimestamp TryMakeTimestampFromDateTime TryMod
    TryMultiply TryParseUrl TrySubtract TryToBinary TryToNumber TryUrlDecode TryValidateUTF8
    TupleDifferenceDouble TupleDifferenceInteger TupleDifferenceThetaDouble TupleDifferenceThetaInteger
    TupleIntersectionDouble TupleIntersectionInteger TupleIntersectionThetaDouble
    TupleIntersectionThetaInteger TupleSketchEstimateDouble TupleSketchEstimateInteger
    TupleSketchSummaryDouble TupleSketchSummaryInteger TupleSketchThetaDouble TupleSketchThetaInteger
    TupleUnionDouble TupleUnionInteger TupleUnionThetaDouble TupleUnionThetaInteger TypedNullLiteral TypeOf
    UnaryMinus UnaryPositive UnBase32 UnBase64 Unhex UnixDate UnixMicros UnixMillis UnixNanos UnixSeconds
    UnixTimestamp UnscaledValue UnwrapUDT UnwrapVariantCastError UpCast UpdateFields Upper UrlDecode
    UrlEncode ValidateUTF8 VariableReference VariantArrayAppend VariantDelete VariantExplode VariantGet
    VariantInsert VariantSet VariantStripNulls VectorCosineSimilarity VectorInnerProduct VectorL2Distance
    VectorNorm VectorNormalize WeekDay WeekOfYear WidthBucket WindowSpecDefinition WindowTime With WithField
    XmlToStructs XPathBoolean XPathDouble XPathFloat XPathInt XPathList XPathLong XPathShort XPathString
    XxHash64 Year YearOfWeek Years ZeroIfNull ZipWith
    """
)
"""Spark's functions of their arguments alone, or of what stays the same while a job runs."""

OF_SQL = "org.apache.spark.sql.catalyst.analysis.SQLScalarFunction"
"""The body of a function that is written in SQL."""

OF_CHARS = "org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils"
PADDING = _names("charTypeWriteSideCheck readSidePadding varcharTypeWriteSideCheck")
"""Methods of that class, which pad strings of a fixed length and check those of a greatest one."""

BY_ORDER = {
    "InputFileBlockLength": "input_file_block_length",
    "InputFileBlockStart": "input_file_block_start",
    "InputFileName": "input_file_name",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "Rand": "rand",
    "RandStr": "randstr",
    "Randn": "randn",
    "Shuffle": "shuffle",
    "SparkPartitionID": "spark_partition_id",
    "Uniform": "uniform",
    "Uuid": "uuid",
}
"""Functions of the place of a row in its partition, and of a seed that the query holds."""

BY_CLOCK = {"CurrentTime": "current_time", "Now": "now"}
"""Functions of the time at which a query is planned, also in a stream: others have its batch's own time."""

READING_TIMES = _names("Cast ParseToDate ParseToTimestamp")
"""Functions that read constant words such as 'now', and times without a date, by the clock."""

FOR_ROWS = _names("AttributeReference NamedLambdaVariable OuterReference PythonUDF ScalarSubquery ScalaUDF")
"""What Spark never takes for a constant, nor what is made of it."""

TIMES = _names(
    """
    AddMonths CurrentBatchTimestamp CurrentDate CurrentTimestamp DateAdd DateAddInterval DateSub LastDay
    LocalTimestamp MakeDate MakeTimestamp NextDay TimeAdd TimestampAdd TimestampAddInterval
    TimestampAddYMInterval TruncDate TruncTimestamp
    """
)
"""Functions that return no text, but dates or times."""

OF_FILE = _names("file_modification_time file_name file_path file_size row_index")
"""Fields of the hidden column `_metadata` that are the same whatever blocks Spark cuts a file into."""


def block_of_file(anew: str) -> str:
    """Return why values of the hidden column `_metadata` may differ, given what plans the query anew."""
    return f"a block of a file downstream of {anew}"


OF_ALL_TYPES = _names(
    "BitmapAndAgg BitmapConstructAgg BitmapOrAgg BoolAnd BoolOr Count CountIf HyperLogLogPlusPlus RegrCount"
)
"""Steady aggregates that are so for floats and collated strings, too: they add none and return none."""

SUMS = _names("Average Sum")
"""Aggregates that may overflow."""

ADDING_DOUBLES = _names("Average RegrAvgX RegrAvgY")
"""Aggregates that add whole numbers and short decimals as doubles: long decimals alone are added exactly."""

BY_RANK = _names("CumeDist DenseRank PercentRank Rank")
"""Window functions that give equal rows equal answers."""

COLLECTING = _names("CollectList CollectSet")
"""Aggregates whose arrays differ in nothing but the order of their elements."""

WITHOUT_ORDER = _names("ArrayContains ArrayMax ArrayMin ArraySize Size SortArray")
"""Functions of an array in which the order of its elements has no part."""

KEEPING_EXACT = _names(
    """
    Abs Add BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Coalesce Concat CreateArray CreateNamedStruct Divide
    Greatest IntegralDivide KnownNotNull Least Lower Multiply Nvl Pmod Remainder ShiftLeft ShiftRight
    ShiftRightUnsigned StringTrim StringTrimLeft StringTrimRight Substring Subtract UnaryMinus UnaryPositive
    Upper
    """
)
"""Expressions of an exact type if their arguments are: casts are expressions of their own."""

ALWAYS_EXACT = _names(
    """
    And BitLength DateAdd DateDiff DateSub DayOfMonth DayOfWeek DayOfYear EqualNullSafe EqualTo GreaterThan
    GreaterThanOrEqual Hour In IsNaN IsNotNull IsNull Length LessThan LessThanOrEqual Minute Month Not
    OctetLength Or Quarter Second Size UnixDate UnixMicros UnixMillis UnixSeconds WeekOfYear Year
    """
)
"""Expressions whose type is exact whatever their arguments are."""
