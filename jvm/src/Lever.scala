package org.apache.spark.sql.tailrace

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap, UUID}
import java.util.concurrent.{Executors, Semaphore, TimeoutException, TimeUnit}
import java.util.concurrent.atomic.AtomicLong
import java.util.function.{Function => JFunction}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.{Partition, SparkContext}
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.ExecutorCacheTaskLocation
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.ProcessingTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.util.{ThreadUtils, Utils}

/**
 * The driver's side: asks the Python planner, checks its answer, remembers it. Whatever fails here leaves the query as it
 * would run without Lever, and the reason is kept and logged once.
 */
object Lever extends Logging {
  val RddName = "tailrace-lever:"
  val StateRddName = "tailrace-lever-state:"
  private val RememberedMax = 64
  private val RunsMax = 1024
  private val json = new ObjectMapper()
  private val failed = new JLinkedHashMap[String, AtomicLong]()
  private val remembered = new JLinkedHashMap[String, String]() {
    override def removeEldestEntry(eldest: JMap.Entry[String, String]): Boolean = size > RememberedMax
  }
  private val runs = scala.collection.mutable.Set.empty[UUID]
  private lazy val caller = Executors.newCachedThreadPool(ThreadUtils.namedThreadFactory("tailrace-lever"))
  private val turn = new Semaphore(1)
  @volatile private var hung = false
  @volatile private var planner: JFunction[String, String] = _
  @volatile private var timeoutMs = 1000L
  @volatile private var listener: LeverListener = _

  /** A context that was stopped and replaced in the same JVM does not hand Lever on to its successor. */
  def enabledIn(context: SparkContext): Boolean = {
    val current = listener
    planner != null && current != null && current.context == context
  }

  def enable(context: SparkContext, function: JFunction[String, String], planTimeoutMs: Long): Unit = synchronized {
    if (listener == null || listener.context != context) {
      listener = new LeverListener(context)
      context.addSparkListener(listener)
    }
    timeoutMs = planTimeoutMs
    hung = false
    planner = function
  }

  def disable(): Unit = synchronized {
    planner = null
    if (listener != null) listener.context.removeSparkListener(listener)
    listener = null
    remembered.clear()
    runs.clear()
    failed.clear()
  }

  /** Reasons and how often each was met, as JSON. */
  def failures(): String = failed.synchronized {
    json.writeValueAsString(failed.asScala.map { case (reason, count) => reason -> Long.box(count.get) }.asJava)
  }

  /** Task ends of a query since the last call, as JSON. */
  def drain(query: String): String = json.writeValueAsString(Option(listener).map(_.drain(query)).getOrElse(Nil).asJava)

  /** What fails is reported and replaced. A query that is being stopped is interrupted, which is no failure and goes on up. */
  def orElse[T](fallback: T)(attempt: => T): T =
    try attempt catch {
      case NonFatal(e) if !stopped(e) => report(s"${e.getClass.getSimpleName}: ${firstLine(e)}"); fallback
    }

  private def stopped(e: Throwable): Boolean =
    SparkContext.getActive.exists(StreamExecution.isInterruptionException(e, _))

  def report(reason: String): Unit = failed.synchronized {
    if (failed.size < RememberedMax && !failed.containsKey(reason)) {
      failed.put(reason, new AtomicLong())
      logWarning(s"Lever left a batch as Spark would run it: $reason")
    }
    Option(failed.get(reason)).foreach(_.incrementAndGet())
  }

  private def firstLine(e: Throwable): String = String.valueOf(e.getMessage).linesIterator.nextOption().getOrElse("").take(200)

  /** The pieces of one source of one batch, or nothing if it is to be read as it is. */
  def place(session: SparkSession, scan: LeverScanExec, partitions: Array[Partition]): Option[Seq[LeverPartition]] = {
    val units = Units.of(scan.child, partitions.toSeq, scan.fixed.nonEmpty)
    val executors = alive(session.sparkContext)
    if (units.isEmpty || executors.isEmpty || !enabledIn(session.sparkContext)) return None
    val stream = Option(session.sharedState.activeStreamingQueries.get(UUID.fromString(scan.query)))
    stream.foreach(waitAtMostOneTrigger(session.sparkContext, _))
    val log = stream.map(new PlanLog(session, _))
    val key = s"${scan.query}/${scan.batch}/${units.map(unit => s"${unit.size}${unit.range.isDefined}").hashCode}"
    recall(scan, log, stream)
    val known = remembered.synchronized(Option(remembered.get(key)))
    known.orElse(ask(request(scan, units, executors, wantedTasks(session.sparkContext, partitions)), patience(stream))).flatMap { answer =>
      val pieces = checked(scan, units, json.readTree(answer), executors)
      if (known.isEmpty && pieces.nonEmpty) {
        remembered.synchronized(remembered.put(key, answer))
        log.foreach(_.write(scan.batch, prefixed(s"${scan.query}/${scan.batch}/")))
      }
      pieces
    }
  }

  /** Where each partition of a stateful stage should run; nothing for those that Spark may place as it would. */
  def home(session: SparkSession, stage: LeverStateExec, states: RDD[_]): Seq[Option[ExecutorCacheTaskLocation]] = {
    val (context, count) = (session.sparkContext, states.partitions.length)
    val (executors, none) = (alive(context), Seq.fill(count)(None))
    if (executors.isEmpty || !enabledIn(context)) return none
    val stream = Option(session.sharedState.activeStreamingQueries.get(UUID.fromString(stage.query)))
    val fields: Map[String, Any] = Map(
      "kind" -> "state",
      "query" -> stage.query,
      "batch" -> stage.batch,
      "operator" -> stage.operator,
      "homes" -> states.partitions.indices.map(homeOf(context, states, _)).asJava,
      "executors" -> listed(executors))
    ask(json.writeValueAsString(fields.asJava), patience(stream)).map(json.readTree).map { answer =>
      val ids = answer.elements.asScala.toSeq.map(_.asText)
      if (failure(answer)) none
      else if (ids.size != count) { report("the plan does not name a home for every partition of state"); none }
      else {
        if (ids.exists(id => id.nonEmpty && !executors.contains(id))) report("the plan names executors that are gone")
        ids.map(id => executors.get(id).map { case (host, _) => ExecutorCacheTaskLocation(host, id) })
      }
    }.getOrElse(none)
  }

  private def homeOf(context: SparkContext, states: RDD[_], partition: Int): String =
    context.getPreferredLocs(states, partition)
      .collectFirst { case at: ExecutorCacheTaskLocation => at.executorId }.getOrElse("")

  private def failure(answer: JsonNode): Boolean = {
    if (answer.isObject) report(s"the planner failed: ${answer.path("error").asText}")
    answer.isObject
  }

  private def listed(executors: Map[String, (String, Int)]) =
    executors.toSeq.sortBy(_._1).map { case (id, (_, cores)) => Seq(id, cores).asJava }.asJava

  private def prefixed(prefix: String): Map[String, String] =
    remembered.synchronized(remembered.asScala.toMap.filter(_._1.startsWith(prefix)))

  /** The first batch of a run may be one that an earlier run planned and did not commit: it is split as it was then. */
  private def recall(scan: LeverScanExec, log: Option[PlanLog], stream: Option[StreamExecution]): Unit =
    stream.map(_.runId).filter(isNew).foreach { _ =>
      log.foreach(_.read(scan.batch).foreach { case (key, answer) =>
        remembered.synchronized(remembered.put(key, answer))
      })
    }

  private def isNew(run: UUID): Boolean = runs.synchronized {
    if (runs.size > RunsMax) runs.clear()
    runs.add(run)
  }

  private def triggerMs(stream: StreamExecution): Option[Long] = stream.trigger match {
    case ProcessingTimeTrigger(intervalMs) if intervalMs > 0 => Some(intervalMs)
    case _ => None
  }

  private def patience(stream: Option[StreamExecution]): Long =
    stream.flatMap(triggerMs).map(interval => math.min(timeoutMs, interval / 2)).getOrElse(timeoutMs)

  /** The wait for a busy executor is a setting of the context, read when a stage starts; it is only ever lowered. */
  private def waitAtMostOneTrigger(context: SparkContext, stream: StreamExecution): Unit =
    triggerMs(stream).foreach { interval =>
      if (context.conf.getTimeAsMs("spark.locality.wait.process", "3s") > interval) {
        context.conf.set("spark.locality.wait.process", s"${interval}ms")
      }
    }

  private def alive(context: SparkContext): Map[String, (String, Int)] = {
    val active: String => Boolean = context.schedulerBackend match {
      case backend: CoarseGrainedSchedulerBackend => backend.isExecutorActive
      case _ => _ => true
    }
    context.statusStore.executorList(activeOnly = true)
      .filter(each => each.id != SparkContext.DRIVER_IDENTIFIER && !each.isExcluded && active(each.id))
      .map(each => each.id -> (Utils.parseHostPort(each.hostPort)._1, math.max(1, each.maxTasks))).toMap
  }

  /** Dynamic allocation asks for executors by waiting tasks: one task per present core would never let it grow. */
  private def wantedTasks(context: SparkContext, partitions: Array[Partition]): Int =
    if (Utils.isDynamicAllocationEnabled(context.conf)) partitions.length else 0

  private def request(scan: LeverScanExec, units: Seq[SourceUnit], executors: Map[String, (String, Int)],
      tasksMin: Int): String = {
    val fields: Map[String, Any] = Map(
      "kind" -> "source",
      "query" -> scan.query,
      "batch" -> scan.batch,
      "fixed" -> scan.fixed,
      "tasks_min" -> tasksMin,
      "units" -> units.map(unit => Seq(unit.size, unit.range.isDefined).asJava).asJava,
      "executors" -> listed(executors),
      "ended" -> listener.drain(scan.query).asJava)
    json.writeValueAsString(fields.asJava)
  }

  /** One call at a time, in a thread of its own; once a call hangs, nobody waits for the planner until it has come back. */
  private def ask(request: String, patienceMs: Long): Option[String] = {
    if (!turn.tryAcquire(if (hung) 0 else patienceMs, TimeUnit.MILLISECONDS)) {
      report("the planner is still busy with an earlier batch")
      return None
    }
    val function = planner
    val answer = caller.submit[String](() => try function(request) finally { hung = false; turn.release() })
    try Some(answer.get(patienceMs, TimeUnit.MILLISECONDS)) catch {
      case _: TimeoutException =>
        hung = true
        report(s"the planner took longer than $patienceMs ms")
        None
    }
  }

  /** Every unit must be covered exactly once; anything else would lose or double rows, so it is refused. */
  private def checked(scan: LeverScanExec, units: Seq[SourceUnit], answer: JsonNode,
      executors: Map[String, (String, Int)]): Option[Seq[LeverPartition]] = {
    if (failure(answer)) return None
    val pieces = answer.elements.asScala.toSeq.map { piece =>
      (piece.get(0).asText, piece.get(1).elements.asScala.toSeq.map(r => (r.get(0).asInt, r.get(1).asLong, r.get(2).asLong)))
    }
    val ranges = pieces.flatMap(_._2).groupBy(_._1)
    val covered = units.indices.forall { index =>
      val sorted = ranges.getOrElse(index, Nil).map(r => (r._2, r._3)).sorted
      val end = sorted.foldLeft(0L) { case (at, (from, to)) => if (from == at && to >= from) to else -1L }
      end == units(index).size && (units(index).range.isDefined || sorted.size == 1)
    }
    val inPlace = scan.fixed.isEmpty || pieces.map(_._2.map(_._1)) == units.indices.map(Seq(_))
    val dead = pieces.map(_._1).filterNot(executors.contains)
    if (pieces.isEmpty) None
    else if (!covered || !inPlace || ranges.keys.exists(i => i < 0 || i >= units.size)) {
      report("the plan does not cover the input exactly once")
      None
    } else {
      if (dead.nonEmpty) report("the plan names executors that are gone")
      Some(pieces.zipWithIndex.map { case ((executor, own), index) =>
        val parts = own.map { case (unit, from, to) =>
          units(unit).range.filter(_ => to - from < units(unit).size).map(_(from, to)).getOrElse(units(unit).whole)
        }
        new LeverPartition(index, parts, executors.get(executor).map { case (host, _) => ExecutorCacheTaskLocation(host, executor) })
      })
    }
  }
}
