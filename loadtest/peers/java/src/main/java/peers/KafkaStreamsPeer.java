package peers;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams: groupByKey, tumbling windows without grace, aggregate, one thread.
 *
 * <p>The fastest mode found: a result when its window closes (EmitStrategy.onWindowClose) from an in-memory store with
 * its changelog; updates at each commit and suppress() take longer. Larger polls, buffers and fetches, commits each
 * 30 s, the parallel and the serial collector: no gain. Windows that no later record closes are read from the store
 * after the clock has stopped. It must not count a window that the store does not hold.
 */
public final class KafkaStreamsPeer {
  private static final String STORE = "use";
  private static final ObjectReader MESSAGE = new ObjectMapper().readerFor(Message.class);

  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class Message {
    public String job_id;
    public long time_ms;
    public double[] util_ratio;
  }

  private record Sample(long timeMs, double sum, int count) {}

  private record Total(double sum, long count) {}

  public static void main(String[] arguments) throws Exception {
    Task task = Task.read(arguments[0]);
    for (int number = 0; number < task.passes(); number++) {
      pass(task, number);
    }
    Runtime.getRuntime().halt(0); // threads of the client must not keep a finished process
  }

  private static void pass(Task task, int number) throws Exception {
    Pass pass = new Pass(task, number);
    AtomicLong seen = new AtomicLong();
    AtomicLong emitted = new AtomicLong();
    StreamsBuilder builder = new StreamsBuilder();
    Duration window = Duration.ofMillis(task.window_ms());
    Consumed<String, Sample> consumed =
        Consumed.with(Serdes.String(), sample()).withTimestampExtractor(KafkaStreamsPeer::timeOf);
    builder.stream(task.topic(), consumed)
        .peek((job, sample) -> {
          if (seen.incrementAndGet() == 1) {
            pass.first();
          }
        })
        .groupByKey(Grouped.with(Serdes.String(), sample()))
        .windowedBy(TimeWindows.ofSizeWithNoGrace(window))
        .emitStrategy(EmitStrategy.onWindowClose())
        .aggregate(
            () -> new Total(0.0, 0),
            (job, sample, total) -> new Total(total.sum + sample.sum, total.count + sample.count),
            Materialized.<String, Total>as(Stores.inMemoryWindowStore(STORE, Duration.ofHours(1), window, false))
                .withKeySerde(Serdes.String())
                .withValueSerde(total()))
        .toStream()
        .foreach((key, total) -> {
          pass.set(key.key(), key.window().start(), total.sum, total.count);
          emitted.incrementAndGet();
        });
    try (KafkaStreams streams = new KafkaStreams(builder.build(), settings(task, number))) {
      streams.start();
      while (seen.get() < task.messages()) {
        Thread.sleep(2);
      }
      pass.last();
      Thread.sleep(200); // the last message is counted before it is aggregated
      long windows = emitted.get();
      readStore(streams, pass);
      pass.write(windows + " windows emitted, the others read from the store");
    }
  }

  private static void readStore(KafkaStreams streams, Pass pass) {
    ReadOnlyWindowStore<String, Total> store =
        streams.store(StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.windowStore()));
    try (var rows = store.all()) {
      rows.forEachRemaining(
          row -> pass.set(row.key.key(), row.key.window().start(), row.value.sum, row.value.count));
    }
  }

  private static Properties settings(Task task, int number) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, task.group() + "-" + number);
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, task.bootstrap_servers());
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, task.directory());
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    String more = System.getProperty("peers.settings", ""); // name=value,... to try others
    for (String each : more.isEmpty() ? new String[0] : more.split(",")) {
      String[] pair = each.split("=", 2);
      settings.put(pair[0], pair[1]);
    }
    return settings;
  }

  private static long timeOf(ConsumerRecord<Object, Object> record, long partitionTimeMs) {
    return ((Sample) record.value()).timeMs;
  }

  private static Serde<Sample> sample() {
    return Serdes.serdeFrom(
        (topic, value) -> {
          throw new UnsupportedOperationException("samples are read only");
        },
        (topic, bytes) -> {
          try {
            Message message = MESSAGE.readValue(bytes);
            double sum = 0.0;
            for (double ratio : message.util_ratio) {
              sum += ratio;
            }
            return new Sample(message.time_ms, sum, message.util_ratio.length);
          } catch (IOException fault) {
            throw new UncheckedIOException(fault);
          }
        });
  }

  private static Serde<Total> total() {
    return Serdes.serdeFrom(
        (topic, total) ->
            total == null ? null : ByteBuffer.allocate(16).putDouble(total.sum).putLong(total.count).array(),
        (topic, bytes) -> {
          if (bytes == null) {
            return null;
          }
          ByteBuffer buffer = ByteBuffer.wrap(bytes);
          return new Total(buffer.getDouble(), buffer.getLong());
        });
  }
}
