package org.apache.spark.sql.tailrace

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.ExecutorCacheTaskLocation
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Says where the partitions of a stateful stage run. Only a preference: a state store is loaded from the checkpoint
 * wherever its task starts, so no choice and no failure here can change a row.
 */
case class LeverStateExec(child: SparkPlan, query: String, batch: Long, operator: Long) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def withNewChildInternal(newChild: SparkPlan): LeverStateExec = copy(child = newChild)

  override protected def doExecute(): RDD[InternalRow] = {
    val states = child.execute()
    Lever.orElse(states) {
      new LeverStateRDD(states, Lever.home(session, this, states)).setName(s"${Lever.StateRddName}$batch:$operator")
    }
  }
}

/** The scheduler asks the last RDD of a stage first, so these homes count before those that the state stores report. */
class LeverStateRDD[T: scala.reflect.ClassTag](states: RDD[T],
    @transient private val homes: Seq[Option[ExecutorCacheTaskLocation]]) extends RDD[T](states) {

  override val partitioner = states.partitioner
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    homes.lift(split.index).flatten.map(_.toString).toSeq

  override def compute(split: Partition, context: TaskContext): Iterator[T] = firstParent[T].iterator(split, context)
}
