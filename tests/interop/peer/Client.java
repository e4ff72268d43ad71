import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQMessage;

/** The JMS client: one connection per command, closed at its end. */
final class Client {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private final EmbeddedBroker broker;

    Client(EmbeddedBroker broker) {
        this.broker = broker;
    }

    JsonNode send(JsonNode request) throws Exception {
        ActiveMQConnectionFactory factory = broker.connectionFactory();
        factory.setUseCompression(request.path("compress").asBoolean());
        String ending = request.path("transaction").asText("");
        Connection connection = factory.createConnection();
        try (AutoCloseable closing = connection::close) {
            connection.start();
            Session session = connection.createSession(!ending.isEmpty(), Session.AUTO_ACKNOWLEDGE);
            ArrayNode sent = NODES.arrayNode();
            for (JsonNode spec : request.get("messages")) {
                sent.add(sendOne(session, request.get("destination").asText(), spec));
            }
            end(session, ending);
            return sent;
        }
    }

    private static JsonNode sendOne(Session session, String destination, JsonNode spec) throws Exception {
        MessageProducer producer = session.createProducer(Messages.destination(destination));
        ActiveMQMessage message = Messages.build(session, spec);
        producer.send(
            message, DeliveryMode.PERSISTENT, spec.path("priority").asInt(4), spec.path("ttl_ms").asLong(0));
        producer.close();
        ObjectNode sent = NODES.objectNode();
        sent.put("message_id", message.getJMSMessageID());
        sent.put("timestamp", message.getJMSTimestamp());
        sent.put("expiration", message.getJMSExpiration());
        return sent;
    }

    /** Sends "count" texts that are numbered, in transactions of "batch"; their priorities go round. */
    JsonNode fill(JsonNode request) throws Exception {
        Connection connection = broker.connectionFactory().createConnection();
        try (AutoCloseable closing = connection::close) {
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageProducer producer =
                session.createProducer(Messages.destination(request.get("destination").asText()));
            String filling = "x".repeat(request.path("bytes").asInt(200));
            int count = request.get("count").asInt();
            for (int i = 0; i < count; i++) {
                javax.jms.Message message = session.createTextMessage(i + " " + filling);
                message.setIntProperty("n", i);
                producer.send(message, DeliveryMode.PERSISTENT, i % 10, request.path("ttl_ms").asLong(0));
                if ((i + 1) % request.path("batch").asInt(1000) == 0) {
                    session.commit();
                }
            }
            session.commit();
            return NODES.objectNode();
        }
    }

    JsonNode receive(JsonNode request) throws Exception {
        Connection connection = broker.connectionFactory().createConnection();
        try (AutoCloseable closing = connection::close) {
            connection.start();
            Session session = session(connection, request);
            return take(
                session, session.createConsumer(Messages.destination(request.get("destination").asText())), request);
        }
    }

    JsonNode browse(JsonNode request) throws Exception {
        Connection connection = broker.connectionFactory().createConnection();
        try (AutoCloseable closing = connection::close) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            ArrayNode seen = NODES.arrayNode();
            Queue queue = (Queue) Messages.destination(request.get("destination").asText());
            for (Object message : Collections.list(session.createBrowser(queue).getEnumeration())) {
                seen.add(Messages.describe((javax.jms.Message) message));
            }
            return seen;
        }
    }

    JsonNode subscribe(JsonNode request) throws Exception {
        Connection connection = durableConnection(request);
        try (AutoCloseable closing = connection::close) {
            durableConsumer(connection.createSession(false, Session.AUTO_ACKNOWLEDGE), request).close();
            return NODES.objectNode();
        }
    }

    JsonNode durableReceive(JsonNode request) throws Exception {
        Connection connection = durableConnection(request);
        try (AutoCloseable closing = connection::close) {
            connection.start();
            Session session = session(connection, request);
            return take(session, durableConsumer(session, request), request);
        }
    }

    JsonNode unsubscribe(JsonNode request) throws Exception {
        Connection connection = durableConnection(request);
        try (AutoCloseable closing = connection::close) {
            connection.createSession(false, Session.AUTO_ACKNOWLEDGE).unsubscribe(request.get("name").asText());
            return NODES.objectNode();
        }
    }

    /** Removes a destination with its messages, as an administrator does. */
    JsonNode destroy(JsonNode request) throws Exception {
        Connection connection = broker.connectionFactory().createConnection();
        try (AutoCloseable closing = connection::close) {
            connection.start();
            ActiveMQConnection ours = (ActiveMQConnection) connection;
            ours.destroyDestination(Messages.destination(request.get("destination").asText()));
            return NODES.objectNode();
        }
    }

    private Connection durableConnection(JsonNode request) throws JMSException {
        Connection connection = broker.connectionFactory().createConnection();
        connection.setClientID(request.get("client_id").asText());
        return connection;
    }

    private static MessageConsumer durableConsumer(Session session, JsonNode request) throws JMSException {
        Topic topic = (Topic) Messages.destination(request.get("topic").asText());
        String selector = request.path("selector").textValue();
        return session.createDurableSubscriber(topic, request.get("name").asText(), selector, false);
    }

    private static Session session(Connection connection, JsonNode request) throws JMSException {
        boolean transacted = request.hasNonNull("transaction");
        boolean acknowledge = request.path("acknowledge").asBoolean(true);
        return connection.createSession(
            transacted, acknowledge ? Session.AUTO_ACKNOWLEDGE : Session.CLIENT_ACKNOWLEDGE);
    }

    /** Receives up to "count" messages; fewer when none comes for "timeout_ms". */
    private static JsonNode take(Session session, MessageConsumer consumer, JsonNode request) throws Exception {
        ArrayNode received = NODES.arrayNode();
        while (received.size() < request.get("count").asInt()) {
            javax.jms.Message message = consumer.receive(request.path("timeout_ms").asLong(10_000));
            if (message == null) {
                break;
            }
            received.add(Messages.describe(message));
        }
        end(session, request.path("transaction").asText(""));
        return received;
    }

    private static void end(Session session, String ending) throws JMSException {
        if (ending.equals("commit")) {
            session.commit();
        } else if (ending.equals("rollback")) {
            session.rollback();
        }
    }
}
