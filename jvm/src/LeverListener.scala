package org.apache.spark.sql.tailrace

import java.util.{LinkedHashMap => JLinkedHashMap, List => JList, Map => JMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkContext, Success, TaskKilled}
import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted, SparkListenerTaskEnd}

/** Collects the ends of tasks that read planned sources or hold planned state, per query, until the planner takes them. */
class LeverListener(val context: SparkContext) extends SparkListener {
  private case class Planned(query: String, batch: Long, operator: Long, submittedMs: Long)
  private val StagesMax = 256
  private val EndsMax = 20000
  private val stages = new JLinkedHashMap[(Int, Int), Planned]() {
    override def removeEldestEntry(eldest: JMap.Entry[(Int, Int), Planned]): Boolean = size > StagesMax
  }
  private val ends = mutable.Map.empty[String, mutable.Queue[JList[Any]]]

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit = synchronized {
    val info = event.stageInfo
    for {
      query <- Option(event.properties).flatMap(p => Option(p.getProperty("sql.streaming.queryId")))
      (batch, operator) <- planned(info.rddInfos.map(_.name))
    } stages.put((info.stageId, info.attemptNumber()),
      Planned(query, batch, operator, info.submissionTime.getOrElse(System.currentTimeMillis())))
  }

  /** Batch, and stateful operator or -1 for a source. */
  private def planned(names: Seq[String]): Option[(Long, Long)] =
    names.collectFirst { case name if name.startsWith(Lever.RddName) => (name.stripPrefix(Lever.RddName).toLong, -1L) }
      .orElse(names.collectFirst { case name if name.startsWith(Lever.StateRddName) =>
        val Array(batch, operator) = name.stripPrefix(Lever.StateRddName).split(':').map(_.toLong)
        (batch, operator)
      })

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = synchronized {
    Option(stages.get((event.stageId, event.stageAttemptId))).foreach { planned =>
      val own = ends.getOrElseUpdate(planned.query, mutable.Queue.empty)
      if (own.size >= EndsMax) own.dequeue()
      val outrun = event.reason match {
        case killed: TaskKilled => killed.reason.contains("another attempt")
        case _ => false
      }
      val info = event.taskInfo
      val rows = Option(event.taskMetrics).map(_.inputMetrics.recordsRead).getOrElse(0L)
      own.enqueue(Seq[Any](planned.batch, event.stageId, planned.submittedMs, info.executorId, info.launchTime,
        info.finishTime, rows, event.reason == Success, outrun, info.taskLocality.toString, planned.operator,
        info.partitionId).asJava)
    }
  }

  def drain(query: String): Seq[JList[Any]] = synchronized(ends.remove(query).map(_.toSeq).getOrElse(Nil))
}
