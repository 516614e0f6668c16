/*
 * One end of a pair in a JVM: what ends.py is in Python, over TCP by Netty. Run by pair.py as `NettyEnd ROLE ADDRESS`; takes
 * the same commands and gives the same answers. Set up as one would for latency: native epoll where there is one, no
 * Nagle, pooled direct buffers, a flush per message, sends on the event loop itself so that no thread hands over to another.
 */
import io.netty.bootstrap.{Bootstrap, ServerBootstrap}
import io.netty.buffer.{ByteBuf, PooledByteBufAllocator, Unpooled}
import io.netty.channel._
import io.netty.channel.epoll.{Epoll, EpollEventLoopGroup, EpollServerSocketChannel, EpollSocketChannel}
import io.netty.channel.nio.NioEventLoopGroup
import io.netty.channel.socket.nio.{NioServerSocketChannel, NioSocketChannel}
import io.netty.handler.codec.LengthFieldBasedFrameDecoder
import java.nio.ByteOrder
import java.nio.file.{Files, Path, StandardCopyOption}
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

object NettyEnd {
  /** Answers go out here alone; whatever a library prints, from its very first class on, goes to the log. */
  private val answers = System.out
  System.setOut(System.err)

  private val FrameBytesMax = 1 << 24
  private val ReadBytesMax = 1 << 20
  private val LeadNs = 20000000L
  private val CopyBytesMax = 4096
  private val epoll = Epoll.isAvailable

  private def group(): EventLoopGroup = if (epoll) new EpollEventLoopGroup(1) else new NioEventLoopGroup(1)

  private def number(line: String, key: String): Double =
    ("\"" + key + "\": *([0-9.eE+-]+)").r.findFirstMatchIn(line).map(_.group(1).toDouble).getOrElse(0.0)

  private def say(text: String): Unit = { answers.println(text); answers.flush() }

  // -- receiving ---------------------------------------------------------------------------------------------------

  /** What one command asks for; the event loop fills it. */
  private final class Taking(val size: Int, val count: Int) {
    val lateNs = new Array[Long](math.max(count, 1))
    val ended = new LinkedBlockingQueue[String](1)
    var received = 0
    var beganNs = 0L
  }

  private final class Receiver extends SimpleChannelInboundHandler[ByteBuf] {
    @volatile var taking: Taking = _

    override def exceptionCaught(context: ChannelHandlerContext, cause: Throwable): Unit = {
      cause.printStackTrace()
      if (taking != null) taking.ended.offer("{\"error\": \"" + cause.getClass.getName + "\"}")
    }

    override def channelRead0(context: ChannelHandlerContext, message: ByteBuf): Unit = {
      val now = System.nanoTime()
      val at = message.readerIndex
      val size = message.readableBytes
      val due = message.getLongLE(at)
      val into = taking
      if (size != into.size || message.getLongLE(at + size - 8) != into.received) {
        into.ended.offer("{\"error\": \"message " + into.received + " was expected, another one came\"}")
      }
      if (into.received == 0) into.beganNs = now
      if (into.count > 0) into.lateNs(into.received) = now - due
      into.received += 1
      if (into.count > 0 && into.received == into.count) {
        into.ended.put(into.lateNs.mkString("{\"late_ns\": [", ", ", "]}"))
      } else if (into.count == 0 && due == -1) {
        into.ended.put("{\"received\": " + into.received + ", \"seconds\": " + (now - into.beganNs) / 1e9 + "}")
      }
    }
  }

  private def listen(address: String): Receiver = {
    val receiver = new Receiver
    val connected = new LinkedBlockingQueue[String](1)
    val bootstrap = new ServerBootstrap()
      .group(group())
      .channel(if (epoll) classOf[EpollServerSocketChannel] else classOf[NioServerSocketChannel])
      .childOption[java.lang.Boolean](ChannelOption.TCP_NODELAY, true)
      .childOption[RecvByteBufAllocator](
        ChannelOption.RCVBUF_ALLOCATOR, new AdaptiveRecvByteBufAllocator(64, 65536, ReadBytesMax))
      .childHandler(new ChannelInitializer[Channel] {
        override def initChannel(channel: Channel): Unit = {
          channel.pipeline.addLast(
            new LengthFieldBasedFrameDecoder(ByteOrder.LITTLE_ENDIAN, FrameBytesMax, 0, 4, 0, 4, true), receiver)
          connected.put("")
        }
      })
    val server = bootstrap.bind("127.0.0.1", 0).sync().channel
    val port = server.localAddress.asInstanceOf[java.net.InetSocketAddress].getPort
    val written = Path.of(address + ".new")
    Files.writeString(written, port.toString)
    Files.move(written, Path.of(address), StandardCopyOption.ATOMIC_MOVE)
    connected.take()
    receiver
  }

  // -- sending -----------------------------------------------------------------------------------------------------

  private def connect(address: String): Channel = {
    while (!Files.exists(Path.of(address))) Thread.sleep(5)
    new Bootstrap()
      .group(group())
      .channel(if (epoll) classOf[EpollSocketChannel] else classOf[NioSocketChannel])
      .option[java.lang.Boolean](ChannelOption.TCP_NODELAY, true)
      .option[WriteBufferWaterMark](ChannelOption.WRITE_BUFFER_WATER_MARK, new WriteBufferWaterMark(1 << 18, 1 << 20))
      .handler(new ChannelInboundHandlerAdapter)
      .connect("127.0.0.1", Files.readString(Path.of(address)).toInt).sync().channel
  }

  /** The bytes between head and number, kept by size: Netty reports a buffer that is dropped without its release. */
  private val fillings = scala.collection.mutable.Map.empty[Int, ByteBuf]

  private def fillingOf(size: Int): ByteBuf = fillings.synchronized {
    fillings.getOrElseUpdate(size, Unpooled.unreleasableBuffer(Unpooled.directBuffer(size).writeZero(size)))
  }

  /** Writes messages of one size: small ones into one buffer, large ones as head, shared filling and number. */
  private final class Writer(channel: Channel, size: Int) {
    private val filling = fillingOf(size)
    private val allocator = PooledByteBufAllocator.DEFAULT

    def write(due: Long, number: Long): Unit = {
      val head = allocator.directBuffer(if (size <= CopyBytesMax) size + 4 else 12)
      head.writeIntLE(size).writeLongLE(due)
      if (size <= CopyBytesMax) {
        head.writeBytes(filling, 0, size - 16).writeLongLE(number)
        channel.writeAndFlush(head, channel.voidPromise)
      } else {
        channel.write(head, channel.voidPromise)
        channel.write(filling.slice(0, size - 16), channel.voidPromise)
        channel.writeAndFlush(allocator.directBuffer(8).writeLongLE(number), channel.voidPromise)
      }
    }
  }

  /** Sends each message when it is due, from the event loop, which is free for its sockets until shortly before. */
  private final class Offer(channel: Channel, size: Int, periodNs: Long, spinNs: Long, count: Int) extends Runnable {
    val ended = new LinkedBlockingQueue[String](1)
    private val writer = new Writer(channel, size)
    private var due = System.nanoTime() + LeadNs
    private var sent = 0

    override def run(): Unit = {
      while (System.nanoTime() < due) Thread.onSpinWait()
      writer.write(due, sent)
      sent += 1
      due += periodNs
      if (sent == count) ended.put("{\"sent\": " + sent + "}")
      else channel.eventLoop.schedule(this, math.max(0, due - System.nanoTime() - spinNs), TimeUnit.NANOSECONDS)
    }
  }

  /** Sends as fast as the channel takes it; goes on when the socket has emptied what it refused. */
  private final class Flood(channel: Channel, size: Int, seconds: Double) extends ChannelInboundHandlerAdapter with Runnable {
    val ended = new LinkedBlockingQueue[String](1)
    private val writer = new Writer(channel, size)
    private val stopNs = System.nanoTime() + (seconds * 1e9).toLong
    private var sent = 0L

    override def run(): Unit = {
      while (channel.isWritable && ended.isEmpty) {
        if (sent % 16 == 0 && System.nanoTime() >= stopNs) {
          channel.pipeline.remove(this)
          writer.write(-1, sent)
          ended.put("{\"sent\": " + (sent + 1) + "}")
        } else {
          writer.write(0, sent)
          sent += 1
        }
      }
    }

    override def channelWritabilityChanged(context: ChannelHandlerContext): Unit = if (channel.isWritable) channel.eventLoop.execute(this)
  }

  // -- commands ----------------------------------------------------------------------------------------------------

  private def send(channel: Channel, line: String): String = {
    val size = number(line, "size").toInt
    if (line.contains("\"latency\"")) {
      val (period, spin) = (number(line, "period_ns").toLong, number(line, "spin_ns").toLong)
      val offer = new Offer(channel, size, period, spin, number(line, "count").toInt)
      channel.eventLoop.execute(offer)
      offer.ended.take()
    } else {
      val flood = new Flood(channel, size, number(line, "seconds"))
      channel.pipeline.addLast(flood)
      channel.eventLoop.execute(flood)
      flood.ended.take()
    }
  }

  def main(words: Array[String]): Unit = {
    val address = words(1)
    val receiver = if (words(0) == "receive") listen(address) else null
    val channel = if (words(0) == "send") connect(address) else null
    say("{\"up\": \"" + (if (epoll) "epoll" else "nio") + "\"}")
    val lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in))
    Iterator.continually(lines.readLine()).takeWhile(_ != null).foreach { line =>
      if (channel != null) say(send(channel, line))
      else {
        val taking = new Taking(number(line, "size").toInt, number(line, "count").toInt)
        receiver.taking = taking
        say("{\"listening\": 1}")
        say(taking.ended.take())
      }
    }
    System.exit(0)
  }
}
