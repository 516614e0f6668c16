package org.apache.spark.sql.tailrace

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.expressions.{CallMethodViaReflection, Expression, InputFileBlockLength}
import org.apache.spark.sql.catalyst.expressions.{ExpressionWithRandomSeed, InputFileBlockStart, InputFileName}
import org.apache.spark.sql.catalyst.expressions.Nondeterministic
import org.apache.spark.sql.catalyst.plans.physical.{BroadcastDistribution, UnspecifiedDistribution}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{BaseLimitExec, ColumnarRule, SampleExec, SparkPlan, StreamSourceAwareSparkPlan}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator

/**
 * Named in spark.sql.extensions; puts a [[LeverScanExec]] over every streaming source of every micro-batch and a
 * [[LeverStateExec]] over the last stateful operator of every stage behind an exchange.
 */
class LeverExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar { session =>
      new ColumnarRule { override def postColumnarTransitions: Rule[SparkPlan] = LeverRule(session) }
    }
}

/**
 * Runs after exchanges are placed. Between a source and the first exchange above it, an operator that needs a certain
 * distribution or depends on partition numbers fixes the partitions: they are then pinned, never cut or regrouped.
 */
case class LeverRule(session: SparkSession) extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = Lever.orElse(plan) {
    val context = session.sparkContext
    val query = context.getLocalProperty("sql.streaming.queryId")
    val batch = context.getLocalProperty("streaming.sql.batchId")
    if (!Lever.enabledIn(context) || query == null || batch == null) plan
    else wrapStates(wrap(plan, "", query, batch.toLong), query, batch.toLong)
  }

  /** One place decides for a stage: the operator nearest to its end. A stage that reads a source is placed by its source. */
  private def wrapStates(plan: SparkPlan, query: String, batch: Long): SparkPlan = plan match {
    case done: LeverStateExec => done
    case state: StatefulOperator if state.stateInfo.isDefined && !readsSource(state) =>
      LeverStateExec(belowExchanges(state)(wrapStates(_, query, batch)), query, batch, state.stateInfo.get.operatorId)
    case other => other.withNewChildren(other.children.map(wrapStates(_, query, batch)))
  }

  private def belowExchanges(plan: SparkPlan)(change: SparkPlan => SparkPlan): SparkPlan = plan match {
    case exchange: Exchange => exchange.withNewChildren(exchange.children.map(change))
    case other => other.withNewChildren(other.children.map(belowExchanges(_)(change)))
  }

  private def readsSource(plan: SparkPlan): Boolean = plan match {
    case _: LeverScanExec => true
    case _: Exchange => false
    case other => other.children.exists(readsSource)
  }

  private def wrap(plan: SparkPlan, fixed: String, query: String, batch: Long): SparkPlan = plan match {
    case done: LeverScanExec => done
    // Tasks of real-time mode run for as long as the query; there is no batch to split.
    case live if live.nodeName.contains("RealTime") => live
    case source: StreamSourceAwareSparkPlan if source.getStream.isDefined && source.children.isEmpty =>
      val kept = if (source.outputOrdering.nonEmpty) "the source reports an order" else fixed
      LeverScanExec(source, query, batch, kept)
    case exchange: Exchange => exchange.withNewChildren(exchange.children.map(wrap(_, "", query, batch)))
    case other =>
      val own = if (fixed.nonEmpty) fixed else dependence(other)
      other.withNewChildren(other.children.zip(other.requiredChildDistribution).map { case (child, needed) =>
        val free = needed == UnspecifiedDistribution || needed.isInstanceOf[BroadcastDistribution]
        wrap(child, if (own.isEmpty && !free) s"${other.nodeName} needs the source's own partitions" else own, query, batch)
      })
  }

  private def dependence(plan: SparkPlan): String = plan match {
    case _: BaseLimitExec | _: SampleExec => s"${plan.nodeName} depends on partitions"
    case p if p.nodeName.contains("Limit") || perPartition(p) => s"${p.nodeName} depends on partitions"
    case p => p.expressions.flatMap(_.collectFirst { case e if partitionDependent(e) => e.prettyName }).headOption
      .map(name => s"$name() depends on partitions").getOrElse("")
  }

  private def perPartition(plan: SparkPlan): Boolean =
    plan.nodeName.startsWith("MapPartitions") || plan.nodeName.startsWith("MapInPandas") ||
      plan.nodeName.startsWith("MapInArrow") || plan.nodeName.startsWith("PythonMapIn")

  private def partitionDependent(expression: Expression): Boolean = expression match {
    case _: InputFileBlockStart | _: InputFileBlockLength => true
    // Random seeds are drawn anew for every micro-batch by Spark itself, so they promise nothing about partitions.
    case _: InputFileName | _: CallMethodViaReflection | _: ExpressionWithRandomSeed => false
    case other => other.isInstanceOf[Nondeterministic]
  }
}
