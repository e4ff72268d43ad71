import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XAConnectionFactory;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptor;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

/**
 * An Artemis that is told by lines of JSON what to store, by JMS clients of three protocols.
 *
 * tests/support/importing/artemis.py sends the lines; the answers are lines of JSON, too.
 */
public final class Recorder {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private static int port;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        EmbeddedActiveMQ embedded = new EmbeddedActiveMQ();
        embedded.setConfigResourcePath(Path.of(arguments[0]).toUri().toString());
        embedded.setSecurityManager(null);
        embedded.start();
        port = ((NettyAcceptor) embedded.getActiveMQServer().getRemotingService().getAcceptor("all")).getActualPort();
        ObjectNode ready = NODES.objectNode().put("port", port);
        ready.put("version", embedded.getActiveMQServer().getVersion().getFullVersion());
        System.out.println(ready);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(mapper.writeValueAsString(run(mapper.readTree(line))));
        }
        embedded.stop();
        System.exit(0);
    }

    private static JsonNode run(JsonNode step) throws Exception {
        switch (step.get("op").asText()) {
            case "send": return send(step);
            case "receive": return receive(step);
            case "prepare": return prepare(step);
            default: throw new IllegalArgumentException(step.toString());
        }
    }

    private static ConnectionFactory factory(JsonNode step) throws Exception {
        String at = "127.0.0.1:" + port;
        switch (step.get("client").asText()) {
            case "core":
                return new org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory(
                    "tcp://" + at + "?blockOnDurableSend=true&minLargeMessageSize=" + step.path("large").asInt(102400)
                        + "&compressLargeMessage=" + step.path("compress").asBoolean());
            case "openwire":
                return new org.apache.activemq.ActiveMQConnectionFactory(
                    "tcp://" + at + "?jms.watchTopicAdvisories=false&jms.useCompression="
                        + step.path("compress").asBoolean());
            case "amqp":
                return new org.apache.qpid.jms.JmsConnectionFactory("amqp://" + at);
            default: throw new IllegalArgumentException(step.toString());
        }
    }

    private static Destination destination(Session session, JsonNode step) throws Exception {
        return destination(session, step.get("destination").asText());
    }

    private static Destination destination(Session session, String name) throws Exception {
        return name.startsWith("topic://") ? session.createTopic(name.substring(8)) : session.createQueue(name.substring(8));
    }

    private static JsonNode send(JsonNode step) throws Exception {
        String ending = step.path("transaction").asText("");
        try (Connection connection = factory(step).createConnection()) {
            connection.start();
            Session session = connection.createSession(!ending.isEmpty(), Session.AUTO_ACKNOWLEDGE);
            ArrayNode sent = sendAll(session, step);
            end(session, ending);
            return sent;
        }
    }

    private static void end(Session session, String ending) throws Exception {
        if (ending.equals("commit")) {
            session.commit();
        } else if (ending.equals("rollback")) {
            session.rollback();
        }
    }

    private static ArrayNode sendAll(Session session, JsonNode step) throws Exception {
        ArrayNode sent = NODES.arrayNode();
        MessageProducer producer = session.createProducer(destination(session, step));
        if (step.hasNonNull("delay_ms")) {
            producer.setDeliveryDelay(step.get("delay_ms").asLong());
        }
        for (JsonNode spec : step.get("messages")) {
            Message message = build(session, spec);
            int mode = spec.path("persistent").asBoolean(true) ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
            producer.send(message, mode, spec.path("priority").asInt(4), spec.path("ttl_ms").asLong(0));
            ObjectNode facts = NODES.objectNode();
            facts.put("message_id", message.getJMSMessageID());
            facts.put("timestamp", message.getJMSTimestamp());
            facts.put("expiration", message.getJMSExpiration());
            sent.add(facts);
        }
        producer.close();
        return sent;
    }

    private static Message build(Session session, JsonNode spec) throws Exception {
        Object body = spec.hasNonNull("body") ? Values.toJava(spec.get("body")) : null;
        Message message = withBody(session, spec.get("kind").asText(), body);
        for (Iterator<Map.Entry<String, JsonNode>> it = spec.path("properties").fields(); it.hasNext(); ) {
            Map.Entry<String, JsonNode> property = it.next();
            message.setObjectProperty(property.getKey(), Values.toJava(property.getValue()));
        }
        if (spec.hasNonNull("correlation_id")) {
            message.setJMSCorrelationID(spec.get("correlation_id").textValue());
        }
        if (spec.hasNonNull("jms_type")) {
            message.setJMSType(spec.get("jms_type").textValue());
        }
        if (spec.hasNonNull("reply_to")) {
            message.setJMSReplyTo(destination(session, spec.get("reply_to").asText()));
        }
        return message;
    }

    private static Message withBody(Session session, String kind, Object body) throws Exception {
        switch (kind) {
            case "message": return session.createMessage();
            case "text": return session.createTextMessage((String) body);
            case "object": return session.createObjectMessage((Serializable) body);
            case "bytes":
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBytes((byte[]) body);
                return bytes;
            case "map":
                MapMessage map = session.createMapMessage();
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) body).entrySet()) {
                    map.setObject((String) entry.getKey(), entry.getValue());
                }
                return map;
            case "stream":
                StreamMessage stream = session.createStreamMessage();
                for (Object item : (Iterable<?>) body) {
                    stream.writeObject(item);
                }
                return stream;
            default: throw new IllegalArgumentException(kind);
        }
    }

    private static JsonNode receive(JsonNode step) throws Exception {
        String ending = step.path("transaction").asText("");
        try (Connection connection = factory(step).createConnection()) {
            if (step.hasNonNull("client_id")) {
                connection.setClientID(step.get("client_id").asText());
            }
            connection.start();
            Session session = connection.createSession(!ending.isEmpty(), Session.AUTO_ACKNOWLEDGE);
            ArrayNode received = take(consumer(session, step), step);
            end(session, ending);
            return received;
        }
    }

    private static ArrayNode take(MessageConsumer consumer, JsonNode step) throws Exception {
        ArrayNode received = NODES.arrayNode();
        while (received.size() < step.path("count").asInt(0)) {
            Message message = consumer.receive(20_000);
            if (message == null) {
                throw new IllegalStateException("nothing came");
            }
            received.add(message.getJMSMessageID());
        }
        return received;
    }

    private static MessageConsumer consumer(Session session, JsonNode step) throws Exception {
        Destination destination = destination(session, step);
        if (step.hasNonNull("name")) {
            return session.createDurableSubscriber(
                (Topic) destination, step.get("name").asText(), step.path("selector").textValue(), false);
        }
        if (step.hasNonNull("shared")) {
            return session.createSharedDurableConsumer((Topic) destination, step.get("shared").asText());
        }
        return session.createConsumer(destination);
    }

    private static JsonNode prepare(JsonNode step) throws Exception {
        XAConnectionFactory factory =
            step.get("client").asText().equals("core")
                ? (XAConnectionFactory) factory(step)
                : new org.apache.activemq.ActiveMQXAConnectionFactory(
                    "tcp://127.0.0.1:" + port + "?jms.watchTopicAdvisories=false");
        try (XAConnection connection = factory.createXAConnection()) {
            if (step.hasNonNull("client_id")) {
                connection.setClientID(step.get("client_id").asText());
            }
            connection.start();
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            Xid xid = new Branch(step.get("xid").asText().getBytes(StandardCharsets.UTF_8));
            ObjectNode result = NODES.objectNode();
            resource.start(xid, XAResource.TMNOFLAGS);
            result.set("sent", sendAll(session, step));
            if (step.hasNonNull("count")) {
                result.set("received", take(consumer(session, step), step));
            }
            resource.end(xid, XAResource.TMSUCCESS);
            resource.prepare(xid);
            String ending = step.path("transaction").asText("");
            if (ending.equals("commit")) {
                resource.commit(xid, false);
            } else if (ending.equals("rollback")) {
                resource.rollback(xid);
            }
            return result;
        }
    }

    private static final class Branch implements Xid {
        private final byte[] global;

        Branch(byte[] global) {
            this.global = global;
        }

        @Override public int getFormatId() {
            return 86;
        }

        @Override public byte[] getGlobalTransactionId() {
            return global;
        }

        @Override public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }
}
