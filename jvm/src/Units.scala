package org.apache.spark.sql.tailrace

import org.apache.spark.Partition
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition

/** A part of a source that can be read alone: `size` in rows, offsets or bytes, and how to cut it if that is possible. */
case class SourceUnit(size: Long, whole: Partition, range: Option[(Long, Long) => Partition])

/** Knows the native ranges of the sources: Kafka offsets, file splits, rate. Everything else stays whole. */
object Units {

  def of(source: SparkPlan, partitions: Seq[Partition], fixed: Boolean): Seq[SourceUnit] =
    if (fixed) partitions.map(part => SourceUnit(sizeOf(part), part, None))
    else partitions.flatMap {
      case part: FilePartition => part.files.toSeq.map(file(source, _))
      case part: DataSourceRDDPartition => Seq(part.inputPartition.flatMap(ranged).getOrElse(opaque(part)))
      case part => Seq(opaque(part))
    }

  private def opaque(part: Partition) = SourceUnit(1, part, None)

  private def sizeOf(part: Partition): Long = part match {
    case files: FilePartition => math.max(1, files.files.map(_.length).sum)
    case data: DataSourceRDDPartition => math.max(1, data.inputPartition.flatMap(ranged).map(_.size).getOrElse(1L))
    case _ => 1
  }

  private def file(source: SparkPlan, file: PartitionedFile): SourceUnit = {
    def part(of: PartitionedFile): Partition = FilePartition(0, Array(of))
    val split = source match {
      case scan: FileSourceScanExec if !showsBlocks(scan) && scan.relation.fileFormat
          .isSplitable(scan.relation.sparkSession, scan.relation.options, file.toPath) =>
        Some((from: Long, to: Long) => part(file.copy(start = file.start + from, length = to - from)))
      case _ => None
    }
    if (file.length > 0) SourceUnit(file.length, part(file), split) else SourceUnit(1, part(file), None)
  }

  /** Columns that tell where a split begins, or number the rows of one, would tell of our cuts. */
  private def showsBlocks(scan: FileSourceScanExec): Boolean =
    (scan.output.map(_.name) ++ scan.requiredSchema.fieldNames)
      .exists(name => name.startsWith("file_block_") || name.contains("row_index"))

  private def ranged(input: InputPartition): Option[SourceUnit] = input match {
    case product: Product => product.productPrefix match {
        case "RateStreamMicroBatchInputPartition" => Some(strided(product, "rangeStart", "rangeEnd"))
        case "RatePerMicroBatchStreamInputPartition" => Some(strided(product, "startOffset", "endOffset"))
        case "KafkaBatchInputPartition" => Some(kafka(product))
        case _ => None
      }
    case _ => None
  }

  /**
   * Rows are start + partitionId + numPartitions * k below end. A range of k is had by moving partitionId and end; start
   * stays, because time stamps are counted from it.
   */
  private def strided(input: Product, startName: String, endName: String): SourceUnit = {
    val Seq(start, end) = Seq(startName, endName).map(field[Long](input, _))
    val (first, stride) = (field[Int](input, "partitionId"), field[Int](input, "numPartitions"))
    val rows = math.max(0L, (end - start - first + stride - 1) / stride)
    def range(from: Long, to: Long): Partition = wrap(remade(input, Map(
      "partitionId" -> Math.toIntExact(first + from * stride),
      endName -> math.min(end, start + first + to * stride))))
    val addressable = end - start + first < Int.MaxValue
    SourceUnit(if (addressable) rows else 1, wrap(input), Option.when(addressable)(range _))
  }

  private def kafka(input: Product): SourceUnit = {
    val offsets = field[Product](input, "offsetRange")
    val Seq(from, until) = Seq("fromOffset", "untilOffset").map(field[Long](offsets, _))
    def range(a: Long, b: Long): Partition = wrap(remade(input, Map("offsetRange" ->
      remade(offsets, Map("fromOffset" -> (from + a), "untilOffset" -> (from + b))))))
    // Offsets below zero stand for "earliest" and "latest" and cannot be counted.
    val known = from >= 0 && until >= from
    SourceUnit(if (known) until - from else 1, wrap(input), Option.when(known)(range _))
  }

  private def wrap(input: Any): Partition = new DataSourceRDDPartition(0, Some(input.asInstanceOf[InputPartition]))

  private def field[T](of: Product, name: String): T =
    of.productElement(of.productElementNames.indexOf(name)).asInstanceOf[T]

  /** A case class with some fields changed. By name, so that one jar serves sources that are not there at build time. */
  private def remade(of: Product, changes: Map[String, Any]): Product = {
    val values = of.productElementNames.zip(of.productIterator).map { case (name, value) => changes.getOrElse(name, value) }
    val constructor = of.getClass.getDeclaredConstructors.find(_.getParameterCount == of.productArity).get
    constructor.setAccessible(true)
    constructor.newInstance(values.map(_.asInstanceOf[AnyRef]).toSeq: _*).asInstanceOf[Product]
  }
}
