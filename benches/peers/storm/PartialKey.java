import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.storm.grouping.PartialKeyGrouping;

/** Apache Storm's partial key grouping. Arguments: files with a key per line. Prints file|ns per message. */
class PartialKey {
    private static final int ROUNDS = 15, WARM_UP = 8, WORKERS = 100;

    public static void main(String[] paths) throws Exception {
        var threads = ManagementFactory.getThreadMXBean();
        for (String path : paths) {
            List<List<Object>> messages = new ArrayList<>();
            for (String key : Files.readAllLines(Path.of(path))) {
                messages.add(List.of(key));
            }
            double[] times = new double[ROUNDS - WARM_UP];
            long sum = 0;
            for (int round = 0; round < ROUNDS; round++) {
                PartialKeyGrouping grouping = new PartialKeyGrouping();
                grouping.prepare(null, null, IntStream.range(0, WORKERS).boxed().toList());
                long start = threads.getCurrentThreadCpuTime();
                for (List<Object> message : messages) {
                    sum += grouping.chooseTasks(0, message).get(0);
                }
                if (round >= WARM_UP) {
                    times[round - WARM_UP] = (double) (threads.getCurrentThreadCpuTime() - start) / messages.size();
                }
            }
            Arrays.sort(times);
            System.err.println("sum of workers: " + sum);
            System.out.println(path + "|" + times[times.length / 2]);
        }
    }
}
