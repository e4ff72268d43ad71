import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.Iterator;
import java.util.Map;
import javax.jms.InvalidSelectorException;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.command.MessageId;
import org.apache.activemq.filter.BooleanExpression;
import org.apache.activemq.filter.MessageEvaluationContext;
import org.apache.activemq.selector.SelectorParser;

/** What ActiveMQ's own selectors make of a message: true, false, unknown, error or exception. */
final class Selectors {
    private Selectors() {}

    static ArrayNode evaluate(JsonNode request) throws Exception {
        MessageEvaluationContext context = new MessageEvaluationContext();
        context.setMessageReference(message(request.get("message")));
        ArrayNode results = JsonNodeFactory.instance.arrayNode();
        for (JsonNode selector : request.get("selectors")) {
            results.add(evaluate(selector.textValue(), context));
        }
        return results;
    }

    private static String evaluate(String selector, MessageEvaluationContext context) {
        // The cache confuses a selector with itself behind convert_string_expressions.
        SelectorParser.clearCache();
        BooleanExpression expression;
        try {
            expression = SelectorParser.parse(selector);
        } catch (InvalidSelectorException refused) {
            return "error";
        }
        try {
            Object result = expression.evaluate(context);
            return result == null ? "unknown" : result.toString();
        } catch (Exception failure) {
            return "exception";
        }
    }

    private static ActiveMQTextMessage message(JsonNode spec) throws Exception {
        ActiveMQTextMessage message = new ActiveMQTextMessage();
        for (Iterator<Map.Entry<String, JsonNode>> it = spec.get("properties").fields(); it.hasNext(); ) {
            Map.Entry<String, JsonNode> property = it.next();
            message.setProperty(property.getKey(), Values.toJava(property.getValue()));
        }
        message.setMessageId(new MessageId(spec.get("message_id").textValue()));
        message.setDestination(Messages.destination(spec.get("destination").textValue()));
        message.setReplyTo(Messages.destination(spec.get("reply_to").textValue()));
        message.setCorrelationId(spec.get("correlation_id").textValue());
        message.setType(spec.get("jms_type").textValue());
        message.setPriority((byte) spec.get("priority").intValue());
        message.setPersistent(spec.get("persistent").booleanValue());
        message.setTimestamp(spec.get("timestamp").longValue());
        message.setExpiration(spec.get("expiration").longValue());
        message.setGroupID(spec.get("group_id").textValue());
        message.setGroupSequence(spec.get("group_sequence").intValue());
        message.setRedeliveryCounter(spec.get("redelivery_counter").intValue());
        return message;
    }
}
