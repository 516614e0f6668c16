package org.apache.spark.sql.tailrace

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** Keeps the plan of the last batches beside the query's offsets, so that a batch that is run again is split alike. */
class PlanLog(session: SparkSession, stream: StreamExecution) {
  private val Kept = 2
  private val json = new ObjectMapper()
  private val root = new Path(stream.resolvedCheckpointRoot, "tailrace_lever")
  private lazy val files = {
    val manager = CheckpointFileManager.create(root, session.sessionState.newHadoopConf())
    if (!manager.exists(root)) manager.mkdirs(root)
    manager
  }

  def write(batch: Long, answers: Map[String, String]): Unit = Lever.orElse(()) {
    val out = files.createAtomic(new Path(root, batch.toString), overwriteIfPossible = true)
    try { out.write(json.writeValueAsString(answers.asJava).getBytes(UTF_8)); out.close() }
    catch { case e: Throwable => out.cancel(); throw e }
    val old = new Path(root, (batch - Kept).toString)
    if (batch >= Kept && files.exists(old)) files.delete(old)
  }

  def read(batch: Long): Map[String, String] = Lever.orElse(Map.empty[String, String]) {
    val path = new Path(root, batch.toString)
    if (!files.exists(path)) Map.empty
    else {
      val in = files.open(path)
      try json.readTree(in.readAllBytes()).properties.asScala.map(e => e.getKey -> e.getValue.asText).toMap
      finally in.close()
    }
  }
}
