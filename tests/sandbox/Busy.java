// An extension in Java for a trial of the sandbox (tests/sandbox/programs.py). It speaks morphir:
// each line on stdin is a request in JSON. Before it answers, it uses what Java programs use:
// threads, another process, a file, a random number.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Busy {
    public static void main(String[] words) throws Exception {
        Thread[] threads = new Thread[8];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(System::gc);
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Process echo = new ProcessBuilder("/bin/echo", "hi").start();
        byte[] output = echo.getInputStream().readAllBytes();
        if (echo.waitFor() != 0 || output.length != 3) {
            throw new IllegalStateException("echo");
        }
        // Never true: both sides need random numbers, which this shows to be available.
        if (UUID.randomUUID().equals(new UUID(new SecureRandom().nextLong(), 0))) {
            throw new IllegalStateException("random");
        }
        Files.write(Path.of("/tmp/written"), output);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Matcher id = Pattern.compile("\"id\": *([0-9]+)").matcher(line);
            id.find();
            System.out.println("{\"id\":" + id.group(1) + ",\"result\":[]}");
        }
    }
}
