import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.Iterator;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageEOFException;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMapMessage;
import org.apache.activemq.command.ActiveMQMessage;

/** JMS messages made from JSON, and described as JSON. Bodies are typed values, see {@link Values}. */
final class Messages {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private Messages() {}

    static ActiveMQMessage build(Session session, JsonNode spec) throws Exception {
        Object body = spec.hasNonNull("body") ? Values.toJava(spec.get("body")) : null;
        ActiveMQMessage message = (ActiveMQMessage) withBody(session, spec.get("kind").asText(), body);
        for (Iterator<Map.Entry<String, JsonNode>> it = spec.path("properties").fields(); it.hasNext(); ) {
            Map.Entry<String, JsonNode> property = it.next();
            Object value = Values.toJava(property.getValue());
            if (value instanceof byte[]) {
                message.setProperty(property.getKey(), value); // OpenWire has them, JMS refuses them
            } else {
                message.setObjectProperty(property.getKey(), value);
            }
        }
        message.setJMSCorrelationID(spec.path("correlation_id").textValue());
        message.setJMSType(spec.path("jms_type").textValue());
        if (spec.hasNonNull("reply_to")) {
            message.setJMSReplyTo(destination(spec.get("reply_to").asText()));
        }
        return message;
    }

    static ActiveMQDestination destination(String name) {
        return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    private static Message withBody(Session session, String kind, Object body) throws JMSException {
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
            default: throw new IllegalArgumentException("no such kind of message: " + kind);
        }
    }

    static ObjectNode describe(Message received) throws Exception {
        ActiveMQMessage message = (ActiveMQMessage) received;
        ObjectNode node = NODES.objectNode();
        node.put("message_id", message.getJMSMessageID());
        node.put("producer_id", message.getMessageId().getProducerId().toString());
        node.put("producer_sequence", message.getMessageId().getProducerSequenceId());
        node.put("destination", name(message.getDestination()));
        node.put("original_destination", name(message.getOriginalDestination()));
        node.put("transacted", message.isInTransaction() || message.getOriginalTransactionId() != null);
        node.put("persistent", message.isPersistent());
        node.put("priority", message.getJMSPriority());
        node.put("timestamp", message.getJMSTimestamp());
        node.put("expiration", message.getJMSExpiration());
        node.put("correlation_id", message.getJMSCorrelationID());
        node.put("reply_to", name(message.getReplyTo()));
        node.put("jms_type", message.getJMSType());
        node.put("group_id", message.getGroupID());
        node.put("group_sequence", message.getGroupSequence());
        node.put("redelivered", message.getJMSRedelivered());
        node.put("redelivery_counter", message.getRedeliveryCounter());
        node.put("user_id", message.getUserID());
        node.put("compressed", message.isCompressed());
        node.put("arrival", message.getArrival());
        node.put("broker_in_time", message.getBrokerInTime());
        node.set("properties", Values.mapToJson(message.getProperties()));
        node.put("kind", kind(message));
        node.set("body", body(message));
        return node;
    }

    /** What an object message of ActiveMQ's client holds: the serialised value, and the mark of a reset. */
    static JsonNode serialized(Object value) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(value);
            out.reset();
        }
        return Values.toJson(bytes.toByteArray());
    }

    private static String name(ActiveMQDestination destination) {
        return destination == null ? null : destination.getQualifiedName();
    }

    private static String kind(Message message) {
        return message instanceof TextMessage ? "text"
            : message instanceof BytesMessage ? "bytes"
            : message instanceof MapMessage ? "map"
            : message instanceof StreamMessage ? "stream"
            : message instanceof ObjectMessage ? "object" : "message";
    }

    private static JsonNode body(Message message) throws Exception {
        if (message instanceof TextMessage) {
            return Values.toJson(((TextMessage) message).getText());
        } else if (message instanceof BytesMessage) {
            byte[] bytes = new byte[(int) ((BytesMessage) message).getBodyLength()];
            ((BytesMessage) message).readBytes(bytes);
            return Values.toJson(bytes);
        } else if (message instanceof MapMessage) {
            return Values.toJson(((ActiveMQMapMessage) message).getContentMap());
        } else if (message instanceof StreamMessage) {
            ArrayNode items = NODES.arrayNode();
            try {
                while (true) {
                    items.add(Values.toJson(((StreamMessage) message).readObject()));
                }
            } catch (MessageEOFException end) {
                return NODES.objectNode().put("t", "list").set("v", items);
            }
        } else if (message instanceof ObjectMessage) {
            Object value = ((ObjectMessage) message).getObject();
            return value == null ? Values.toJson(null) : serialized(value);
        }
        return Values.toJson(null);
    }
}
