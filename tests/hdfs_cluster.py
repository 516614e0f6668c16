"""A real HDFS for tests: a name node and two data nodes in one Java process, from Hadoop's mini cluster.

Its superuser is not the one who runs the tests, who may write below ``/open`` and ``/small`` only; ``/small`` has a
quota less than one block.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

from tests.maven import fetch

ARTIFACTS = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    # What it asks for and does not bring.
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "org.slf4j:slf4j-reload4j:1.7.36",
    "org.bouncycastle:bcprov-jdk18on:1.82",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
)
SUPERUSER = "hdfs"
SOURCE = """
import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

public class HdfsCluster {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("dfs.replication", "2");
        File folder = new File(arguments[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration, folder).numDataNodes(2).build();
        cluster.waitActive();
        DistributedFileSystem files = cluster.getFileSystem();
        for (String name : new String[] {"/open", "/small"}) {
            files.mkdirs(new Path(name));
            files.setPermission(new Path(name), new FsPermission("777"));
        }
        files.setQuota(new Path("/small"), HdfsConstants.QUOTA_DONT_SET, 65536);
        System.out.println(files.getUri());
        int order;
        while ((order = System.in.read()) >= 0) {
            if (order == 's' || order == 'l') {
                files.setSafeMode(order == 's' ? SafeModeAction.ENTER : SafeModeAction.LEAVE);
                System.out.println("done");
            }
        }
        System.exit(0);
    }
}
"""


class HdfsCluster:
    """An HDFS that begins to run; ``uri`` is its address once ``wait`` has returned."""

    def __init__(self, folder):
        jars = fetch(folder, *ARTIFACTS)
        source = folder / "HdfsCluster.java"
        source.write_text(SOURCE)
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # starts in half the time
        command = ["java", *options, "-cp", os.pathsep.join(map(str, jars)), str(source)]
        with (folder / "hdfs.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, str(folder / "data")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"HADOOP_USER_NAME": SUPERUSER},
            )
        self.uri = ""

    def wait(self):
        """Wait until it takes requests."""
        self.uri = self._process.stdout.readline().strip()
        assert self.uri.startswith("hdfs://")

    def safe_mode(self, on):
        """Let the name node refuse writes, as it does while it starts, or take them again."""
        self._process.stdin.write("s" if on else "l")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def kill(self):
        """End it."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@contextlib.contextmanager
def hdfs_cluster(folder):
    """Run a cluster."""
    running = HdfsCluster(folder)
    try:
        yield running
    finally:
        running.kill()
