import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/**
 * An ActiveMQ broker with its JDBC store, and a JMS client, under the control of another process.
 *
 * <p>Each line of standard input is one JSON request, {@code {"do": command, ...}}. Each gets one line of
 * JSON on standard output: {@code {"ok": result}} or {@code {"error": stack trace}}. The end of standard
 * input stops the broker and ends the process. tests/interop/README.md lists the commands.
 */
public final class Peer {
    private final ObjectMapper json = new ObjectMapper();
    private final EmbeddedBroker broker = new EmbeddedBroker();
    private final Client client = new Client(broker);

    private Peer() {
        // Java strings may hold lone surrogates, which UTF-8 cannot carry.
        json.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
    }

    private JsonNode run(JsonNode request) throws Exception {
        String command = request.path("do").asText();
        switch (command) {
            case "start": return broker.start(request);
            case "stop": return broker.stop();
            case "cleanup": return broker.cleanup();
            case "send": return client.send(request);
            case "fill": return client.fill(request);
            case "receive": return client.receive(request);
            case "browse": return client.browse(request);
            case "subscribe": return client.subscribe(request);
            case "durable_receive": return client.durableReceive(request);
            case "unsubscribe": return client.unsubscribe(request);
            case "destroy": return client.destroy(request);
            case "serialize": return Messages.serialized(Values.toJava(request.get("value")));
            case "select": return Selectors.evaluate(request);
            case "xa_prepare": return new XaClient(broker).prepare(request);
            case "xa_finish": return new XaClient(broker).finish(request);
            case "bench": return new Bench(broker).run(request);
            default: throw new IllegalArgumentException("unknown command '" + command + "'");
        }
    }

    private ObjectNode answer(String line) {
        ObjectNode answer = json.createObjectNode();
        try {
            answer.set("ok", run(json.readTree(line)));
        } catch (Throwable failure) {
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            answer.put("error", trace.toString());
        }
        return answer;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream replies = new PrintStream(System.out, true, StandardCharsets.US_ASCII);
        System.setOut(System.err); // whatever a library prints must not end up between the replies
        Peer peer = new Peer();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            replies.println(peer.json.writeValueAsString(peer.answer(line)));
        }
        peer.broker.stop();
        System.exit(0); // client threads of an abandoned XA branch may live on
    }
}
