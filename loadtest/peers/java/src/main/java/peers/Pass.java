package peers;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The clock and the results of one pass over the topic; the first pass of a JVM is its cold one.
 *
 * <p>It must not check the results: whoever started this process does.
 */
final class Pass {
  private static final double TICKS_PER_S = 100.0;

  private record Total(double sum, long count) {}

  private record Window(String job, long startMs) {}

  private final Task task;
  private final int number;
  private final Map<Window, Total> totals = new ConcurrentHashMap<>();
  private volatile long firstNano;
  private double firstCpuS;
  private double firstAtS;
  private double wallS;
  private double cpuS;

  Pass(Task task, int number) {
    this.task = task;
    this.number = number;
  }

  /** The first record is here; later calls change nothing. */
  void first() {
    if (firstNano == 0) {
      firstCpuS = cpuSeconds();
      firstAtS = System.currentTimeMillis() / 1e3;
      firstNano = System.nanoTime();
    }
  }

  /** The last result is here. */
  void last() {
    wallS = (System.nanoTime() - firstNano) / 1e9;
    cpuS = cpuSeconds() - firstCpuS;
  }

  /** A window's newest total; it replaces what was known. */
  void set(String job, long windowMs, double sum, long count) {
    totals.put(new Window(job, windowMs), new Total(sum, count));
  }

  /** Writes result-N.json, whole or not at all. */
  void write(String note) throws IOException {
    List<Object[]> rows = new ArrayList<>(totals.size());
    totals.forEach((at, of) -> rows.add(new Object[] {at.job, at.startMs, of.sum, of.count}));
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("first_at_s", firstAtS);
    result.put("wall_s", wallS);
    result.put("cpu_s", cpuS);
    result.put("whole_cpu_s", cpuSeconds());
    result.put("peak_rss_mib", peakRssMib());
    result.put("rows", rows);
    result.put("note", note);
    File written = new File(task.directory(), "result-" + number + ".part");
    new ObjectMapper().writeValue(written, result);
    Files.move(written.toPath(), Path.of(task.directory(), "result-" + number + ".json"));
  }

  /** User and system time of this process, as the kernel counts it for the Python peers too. */
  private static double cpuSeconds() {
    try {
      String text = Files.readString(Path.of("/proc/self/stat"));
      String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ");
      return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / TICKS_PER_S;
    } catch (IOException fault) {
      throw new IllegalStateException("no /proc/self/stat to take the CPU time from", fault);
    }
  }

  private static double peakRssMib() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmHWM:")) {
        return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
      }
    }
    throw new IOException("no VmHWM in /proc/self/status");
  }
}
