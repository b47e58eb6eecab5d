// Java 17: java Create.java
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

class Create {
    public static void main(String[] args) throws InterruptedException {
        var token = System.getenv("ACCESS_TOKEN");
        if (token == null || token.isEmpty()) fail("ACCESS_TOKEN is not set");

        // Without it, Java asks for HTTP/2, which the service answers with an empty 400.
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        var request = HttpRequest.newBuilder(URI.create("PLANTS_URL"))
            .header("Authorization", "Bearer " + token)
            .header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString("""
                NEW_PLANT"""))
            .build();

        for (int tries = 0;; tries++) {
            int status = 0; // no reply
            String after = "", text;
            try {
                var reply = client.sendAsync(request, BodyHandlers.ofString())
                    .get(REPLY_S_MAX, TimeUnit.SECONDS);
                status = reply.statusCode();
                after = reply.headers().firstValue("Retry-After").orElse("");
                text = reply.body();
            } catch (ExecutionException | TimeoutException error) {
                text = error.toString();
            }
            if (status == 200) {
                System.out.println(text);
                return;
            }
            if (!Set.of(0, STATUSES).contains(status)) {
                fail("fix the request: " + text);
            }
            if (tries == RETRIES) fail("keep the create, send it later: " + text);
            // A date counts as none.
            long pause = Math.max(after.matches("\\d{1,9}") ? Long.parseLong(after) : 0, 1L << tries);
            Thread.sleep((long) (1000 * pause * (1 + Math.random())));
        }
    }

    static void fail(String message) {
        System.err.println(message);
        System.exit(1);
    }
}
