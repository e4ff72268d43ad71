import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.Method;
import java.util.Iterator;
import java.util.Map;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;
import org.apache.activemq.store.PersistenceAdapter;

/** The broker of an old ActiveMQ, with a store in files that newer ones do not have; see ../peer. */
final class EmbeddedBroker {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private BrokerService broker;
    private String openWireUrl;

    ActiveMQConnectionFactory connectionFactory() {
        return new ActiveMQConnectionFactory("peer", "", openWireUrl() + "?jms.watchTopicAdvisories=false");
    }

    String openWireUrl() {
        if (broker == null) {
            throw new IllegalStateException("no broker is running");
        }
        return openWireUrl;
    }

    /** The class of the "adapter" has its files in "directory", and the "settings" as its properties. */
    JsonNode start(JsonNode request) throws Exception {
        if (broker != null) {
            throw new IllegalStateException("a broker is running already");
        }
        Object adapter = Class.forName(request.get("adapter").asText()).getConstructor().newInstance();
        set(adapter, "directory", new File(request.get("directory").asText()));
        for (Iterator<Map.Entry<String, JsonNode>> it = request.path("settings").fields(); it.hasNext(); ) {
            Map.Entry<String, JsonNode> setting = it.next();
            set(adapter, setting.getKey(), setting.getValue());
        }
        broker = new BrokerService();
        broker.setBrokerName("peer");
        broker.setPersistenceAdapter((PersistenceAdapter) adapter);
        broker.setDataDirectory(System.getProperty("java.io.tmpdir"));
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setAdvisorySupport(false);
        TransportConnector openWire = broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        openWireUrl = openWire.getConnectUri().toString();
        ObjectNode result = NODES.objectNode();
        result.put("openwire_url", openWireUrl);
        result.put("stomp_port", 0);
        return result;
    }

    private static void set(Object bean, String property, Object value) throws Exception {
        String name = "set" + property.substring(0, 1).toUpperCase() + property.substring(1);
        for (Method method : bean.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterTypes().length == 1) {
                method.invoke(bean, converted(value, method.getParameterTypes()[0]));
                return;
            }
        }
        throw new IllegalArgumentException(bean.getClass() + " has no " + property);
    }

    private static Object converted(Object value, Class<?> type) {
        if (!(value instanceof JsonNode)) {
            return value;
        }
        JsonNode node = (JsonNode) value;
        if (type == boolean.class) {
            return node.asBoolean();
        }
        if (type == int.class) {
            return node.asInt();
        }
        return type == long.class ? (Object) node.asLong() : node.asText();
    }

    JsonNode stop() throws Exception {
        if (broker != null) {
            broker.stop();
            broker = null;
        }
        return NODES.objectNode();
    }

    JsonNode cleanup() {
        throw new UnsupportedOperationException();
    }
}
