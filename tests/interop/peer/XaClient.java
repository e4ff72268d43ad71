import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.XATransactionId;

/** Branches of XA transactions that stop after the first phase, and their outcome. */
final class XaClient {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private final EmbeddedBroker broker;

    XaClient(EmbeddedBroker broker) {
        this.broker = broker;
    }

    /** Sends "messages" to and receives "count" from "destination" in one branch, and leaves it in doubt. */
    JsonNode prepare(JsonNode request) throws Exception {
        XAConnection connection = connect(request);
        try (AutoCloseable closing = connection::close) {
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            XATransactionId xid = xid(request);
            ActiveMQDestination destination = Messages.destination(request.get("destination").asText());
            ArrayNode sent = NODES.arrayNode();
            ArrayNode received = NODES.arrayNode();
            resource.start(xid, XAResource.TMNOFLAGS);
            for (JsonNode spec : request.path("messages")) {
                ActiveMQMessage message = Messages.build(session, spec);
                session.createProducer(destination).send(message);
                sent.add(message.getJMSMessageID());
            }
            if (request.hasNonNull("count")) {
                MessageConsumer consumer = consumer(session, destination, request);
                for (int i = 0; i < request.get("count").asInt(); i++) {
                    Message message = consumer.receive(10_000);
                    received.add(message.getJMSMessageID());
                }
            }
            resource.end(xid, XAResource.TMSUCCESS);
            resource.prepare(xid);
            ObjectNode result = NODES.objectNode();
            result.set("sent", sent);
            result.set("received", received);
            return result;
        }
    }

    /** Ends a prepared branch: "outcome" is commit or rollback. */
    JsonNode finish(JsonNode request) throws Exception {
        XAConnection connection = connect(request);
        try (AutoCloseable closing = connection::close) {
            XAResource resource = connection.createXASession().getXAResource();
            if (request.get("outcome").asText().equals("commit")) {
                resource.commit(xid(request), false);
            } else {
                resource.rollback(xid(request));
            }
            return NODES.objectNode();
        }
    }

    private XAConnection connect(JsonNode request) throws JMSException {
        String url = broker.openWireUrl() + "?jms.watchTopicAdvisories=false";
        XAConnection connection = new ActiveMQXAConnectionFactory("peer", "", url).createXAConnection();
        if (request.hasNonNull("client_id")) {
            connection.setClientID(request.get("client_id").asText());
        }
        connection.start();
        return connection;
    }

    private static MessageConsumer consumer(XASession session, ActiveMQDestination destination, JsonNode request)
            throws JMSException {
        if (destination.isTopic()) {
            return session.createDurableSubscriber((Topic) destination, request.get("name").asText());
        }
        return session.createConsumer(destination);
    }

    private static XATransactionId xid(JsonNode request) {
        XATransactionId xid = new XATransactionId();
        xid.setFormatId(86);
        xid.setGlobalTransactionId(request.get("xid").asText().getBytes(StandardCharsets.UTF_8));
        xid.setBranchQualifier(new byte[] {1});
        return xid;
    }
}
