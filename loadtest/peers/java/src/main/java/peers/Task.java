package peers;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;

/**
 * What one process is asked to do, as loadtest/peers/task.py writes it.
 *
 * <p>It must not hold a choice of ours about a peer: those stand in the peer's own file.
 */
public record Task(
    String bootstrap_servers,
    String topic,
    String group,
    long messages,
    int gpus_per_message,
    long window_ms,
    int passes,
    String directory) {

  /** Reads the task; a field that is missing or misspelt is an error, one for others is not. */
  static Task read(String path) throws IOException {
    return new ObjectMapper()
        .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
        .configure(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES, true)
        .readValue(new File(path), Task.class);
  }
}
