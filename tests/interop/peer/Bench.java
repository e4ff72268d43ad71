import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Messages per second: N producers send persistent messages to one queue, then one consumer drains it. */
final class Bench {
    private final EmbeddedBroker broker;

    Bench(EmbeddedBroker broker) {
        this.broker = broker;
    }

    /** "batch" messages to a transaction; 1 means no transactions: synchronous sends, automatic acks. */
    JsonNode run(JsonNode request) throws Exception {
        int producers = request.get("producers").asInt();
        int each = request.get("messages").asInt() / producers;
        int size = request.path("bytes").asInt(1024);
        int batch = request.path("batch").asInt(1);
        ActiveMQConnectionFactory factory = broker.connectionFactory();
        factory.setAlwaysSyncSend(batch == 1);
        factory.setOptimizeAcknowledge(false);
        double sending = produce(factory, producers, each, size, batch);
        double draining = drain(factory, producers * each, batch);
        ObjectNode result = JsonNodeFactory.instance.objectNode();
        result.put("messages", producers * each);
        result.put("sent_per_second", producers * each / sending);
        result.put("drained_per_second", producers * each / draining);
        return result;
    }

    private static double produce(ActiveMQConnectionFactory factory, int producers, int each, int size, int batch)
            throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(producers);
        List<Future<?>> running = new ArrayList<>();
        CountDownLatch connected = new CountDownLatch(producers);
        CountDownLatch begun = new CountDownLatch(1);
        for (int i = 0; i < producers; i++) {
            running.add(threads.submit(() -> {
                Connection connection = null;
                Session session;
                try {
                    connection = factory.createConnection();
                    session = connection.createSession(batch > 1, Session.AUTO_ACKNOWLEDGE);
                } finally {
                    connected.countDown();
                }
                try (AutoCloseable closing = connection::close) {
                    MessageProducer producer = session.createProducer(Messages.destination("queue://BENCH"));
                    begun.await();
                    for (int n = 1; n <= each; n++) {
                        BytesMessage message = session.createBytesMessage();
                        message.writeBytes(new byte[size]);
                        producer.send(message);
                        if (batch > 1 && (n % batch == 0 || n == each)) {
                            session.commit();
                        }
                    }
                    return null;
                }
            }));
        }
        connected.await();
        long begin = System.nanoTime();
        begun.countDown();
        for (Future<?> producer : running) {
            producer.get();
        }
        threads.shutdown();
        return (System.nanoTime() - begin) / 1e9;
    }

    private static double drain(ActiveMQConnectionFactory factory, int count, int batch) throws Exception {
        Connection connection = factory.createConnection();
        long begin = System.nanoTime();
        try (AutoCloseable closing = connection::close) {
            Session session = connection.createSession(batch > 1, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(Messages.destination("queue://BENCH"));
            connection.start();
            for (int n = 1; n <= count; n++) {
                if (consumer.receive(60_000) == null) {
                    throw new IllegalStateException("only " + (n - 1) + " of " + count + " messages came");
                }
                if (batch > 1 && (n % batch == 0 || n == count)) {
                    session.commit();
                }
            }
        }
        // Acknowledgements are sent without waiting; the close is answered after the last of them.
        return (System.nanoTime() - begin) / 1e9;
    }
}
