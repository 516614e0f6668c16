package org.apache.spark.sql.tailrace

import org.apache.spark.{NarrowDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.ExecutorCacheTaskLocation
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads its child in the pieces that the planner chose; if there is no plan, as the child would be read without it. */
case class LeverScanExec(child: SparkPlan, query: String, batch: Long, fixed: String) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def supportsRowBased: Boolean = child.supportsRowBased
  override def vectorTypes: Option[Seq[String]] = child.vectorTypes
  override def outputPartitioning: Partitioning =
    if (fixed.nonEmpty) child.outputPartitioning else UnknownPartitioning(0)
  override def outputOrdering: Seq[SortOrder] = if (fixed.nonEmpty) child.outputOrdering else Nil

  override protected def doExecute(): RDD[InternalRow] = placed(child.execute())
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = placed(child.executeColumnar())
  override protected def withNewChildInternal(newChild: SparkPlan): LeverScanExec = copy(child = newChild)

  private def placed[T: scala.reflect.ClassTag](source: RDD[T]): RDD[T] = Lever.orElse(source) {
    Lever.place(session, this, source.partitions) match {
      case Some(pieces) => new LeverRDD(source, pieces).setName(s"${Lever.RddName}$batch")
      case None => source
    }
  }
}

/** One task: partitions of the source (its own or cut ones) that are read one after the other, and where. */
class LeverPartition(override val index: Int, val parts: Seq[Partition], val at: Option[ExecutorCacheTaskLocation])
  extends Partition

/** A source RDD computes whatever partition object it is handed, so cut partitions need no new reader. */
class LeverRDD[T: scala.reflect.ClassTag](source: RDD[T], @transient private val pieces: Seq[LeverPartition])
  extends RDD[T](source.context, Seq(new LeverDependency(source))) {

  override protected def getPartitions: Array[Partition] = pieces.toArray[Partition]

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[LeverPartition].at.map(_.toString).toSeq

  override def compute(split: Partition, context: TaskContext): Iterator[T] =
    split.asInstanceOf[LeverPartition].parts.iterator.flatMap(part => firstParent[T].iterator(part, context))
}

/** Narrow, but without a parent by number: a cut partition has none. */
class LeverDependency[T](source: RDD[T]) extends NarrowDependency[T](source) {
  override def getParents(partitionId: Int): Seq[Int] = Nil
}
