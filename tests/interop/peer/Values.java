import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.activemq.util.MarshallingSupport;
import org.fusesource.hawtbuf.UTF8Buffer;

/** Java values as JSON that keeps their types: {"t": "short", "v": 7}, floats by their IEEE bits. */
final class Values {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private Values() {}

    static Object toJava(JsonNode value) throws IOException {
        JsonNode v = value.get("v");
        switch (value.get("t").asText()) {
            case "null": return null;
            case "boolean": return v.booleanValue();
            case "byte": return (byte) v.intValue();
            case "short": return (short) v.intValue();
            case "char": return (char) v.intValue();
            case "int": return v.intValue();
            case "long": return v.longValue();
            case "float": return Float.intBitsToFloat(value.get("bits").intValue());
            case "double": return Double.longBitsToDouble(value.get("bits").longValue());
            case "string": return v.textValue();
            case "bytes": return value.get("b64").binaryValue();
            case "list":
                List<Object> list = new ArrayList<>();
                for (JsonNode item : v) {
                    list.add(toJava(item));
                }
                return list;
            case "map":
                Map<String, Object> map = new HashMap<>();
                for (Iterator<Map.Entry<String, JsonNode>> it = v.fields(); it.hasNext(); ) {
                    Map.Entry<String, JsonNode> item = it.next();
                    map.put(item.getKey(), toJava(item.getValue()));
                }
                return map;
            default: throw new IllegalArgumentException("no such type: " + value);
        }
    }

    static JsonNode toJson(Object value) throws IOException {
        ObjectNode node = NODES.objectNode();
        if (value == null) {
            return node.put("t", "null");
        } else if (value instanceof Boolean) {
            return node.put("t", "boolean").put("v", (Boolean) value);
        } else if (value instanceof Character) {
            return node.put("t", "char").put("v", (int) (Character) value);
        } else if (value instanceof Float) {
            return node.put("t", "float").put("bits", Float.floatToRawIntBits((Float) value));
        } else if (value instanceof Double) {
            return node.put("t", "double").put("bits", Double.doubleToRawLongBits((Double) value));
        } else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
            String type = value instanceof Integer ? "int" : value.getClass().getSimpleName().toLowerCase();
            return node.put("t", type).put("v", ((Number) value).longValue());
        } else if (value instanceof byte[]) {
            return node.put("t", "bytes").put("b64", Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof String) {
            return node.put("t", "string").put("v", (String) value);
        } else if (value instanceof UTF8Buffer) {
            return node.put("t", "string").put("v", text((UTF8Buffer) value));
        } else if (value instanceof List) {
            ArrayNode items = NODES.arrayNode();
            for (Object item : (List<?>) value) {
                items.add(toJson(item));
            }
            return node.put("t", "list").set("v", items);
        } else if (value instanceof Map) {
            return node.put("t", "map").set("v", mapToJson((Map<?, ?>) value));
        }
        throw new IllegalArgumentException("a " + value.getClass().getName() + " is no JMS value");
    }

    static ObjectNode mapToJson(Map<?, ?> values) throws IOException {
        ObjectNode node = NODES.objectNode();
        for (Map.Entry<?, ?> entry : values.entrySet()) {
            node.set((String) entry.getKey(), toJson(entry.getValue()));
        }
        return node;
    }

    /**
     * The text in the buffer. Its own toString, which ActiveMQ's client uses, takes modified UTF-8 for
     * UTF-8 and so turns every character beyond the basic plane into four question marks.
     */
    private static String text(UTF8Buffer buffer) throws IOException {
        byte[] bytes = buffer.toByteArray();
        return MarshallingSupport.convertUTF8WithBuf(bytes, new char[bytes.length], 0, bytes.length);
    }
}
