import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import javax.jms.BytesMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/**
 * The client of benchmarks/openwire.py: each line of standard input is {@code URL WORK QUEUE SECONDS}, and
 * each line of standard output the JSON of what was measured. One process serves all brokers, so that its
 * compiled code is the same for each.
 */
public final class OpenWireLoad {
    private static final byte[] BODY = new byte[1024];
    private static final int BATCH = 100;
    /** Messages of a queue that is drained, and of each commit that fills it. */
    private static final int FILLED_EACH_SECOND = 25_000, COMMITTED = 500;

    private final ActiveMQConnectionFactory factory;
    private final String queue;
    private final long length;
    private final int filled;

    private OpenWireLoad(String url, String queue, double seconds) {
        factory = new ActiveMQConnectionFactory(url);
        factory.setWatchTopicAdvisories(false);
        this.queue = queue;
        this.length = (long) (seconds * 1e9);
        this.filled = (int) (seconds * FILLED_EACH_SECOND) / COMMITTED * COMMITTED;
    }

    private static final class Measured {
        long messages;
        double seconds;
        final List<Double> latencies = new ArrayList<>();

        String json() {
            String all = latencies.stream().map(ms -> String.format(Locale.ROOT, "%.3f", ms))
                .collect(Collectors.joining(","));
            return String.format(Locale.ROOT, "{\"messages\":%d,\"seconds\":%f,\"latencies\":[%s]}", messages, seconds, all);
        }
    }

    private interface Work {
        void run(ActiveMQConnection connection, Session session, Measured measured, long end) throws Exception;
    }

    private Measured run(String work) throws Exception {
        switch (work) {
            case "send-1": return at(1, 0, Session.AUTO_ACKNOWLEDGE, this::send);
            case "send-4": return at(4, 0, Session.AUTO_ACKNOWLEDGE, this::send);
            case "send-16": return at(16, 0, Session.AUTO_ACKNOWLEDGE, this::send);
            case "send-64": return at(64, 0, Session.AUTO_ACKNOWLEDGE, this::send);
            case "transactions": return at(1, 0, Session.SESSION_TRANSACTED, this::transact);
            case "async": return at(1, 1 << 20, Session.AUTO_ACKNOWLEDGE, this::sendAsync);
            case "fill": return at(1, 0, Session.SESSION_TRANSACTED, this::fill);
            case "drain-auto": return at(1, 0, Session.AUTO_ACKNOWLEDGE, drain(1, null));
            case "drain-client": return at(1, 0, Session.CLIENT_ACKNOWLEDGE, drain(BATCH, (s, m) -> m.acknowledge()));
            case "drain-each":
                return at(1, 0, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE, drain(1, (s, m) -> m.acknowledge()));
            case "drain-transacted": return at(1, 0, Session.SESSION_TRANSACTED, drain(BATCH, (s, m) -> s.commit()));
            default: throw new IllegalArgumentException(work);
        }
    }

    private Measured at(int connections, int window, int mode, Work work) throws Exception {
        factory.setProducerWindowSize(window);
        List<ActiveMQConnection> open = new ArrayList<>();
        List<Callable<Measured>> calls = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
            open.add(connection);
            connection.start();
            Session session = connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
            calls.add(() -> {
                Measured measured = new Measured();
                work.run(connection, session, measured, System.nanoTime() + length);
                connection.close(); // answered after the last acknowledgement
                return measured;
            });
        }
        ExecutorService threads = Executors.newFixedThreadPool(connections);
        long begin = System.nanoTime();
        Measured sum = new Measured();
        for (Future<Measured> one : threads.invokeAll(calls)) {
            sum.messages += one.get().messages;
            sum.latencies.addAll(one.get().latencies);
        }
        sum.seconds = (System.nanoTime() - begin) / 1e9;
        threads.shutdown();
        return sum;
    }

    private void send(ActiveMQConnection connection, Session session, Measured measured, long end) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        for (long now = System.nanoTime(); now < end;) {
            producer.send(message(session));
            long before = now;
            now = System.nanoTime();
            measured.latencies.add((now - before) / 1e6);
            measured.messages++;
        }
    }

    private void transact(ActiveMQConnection connection, Session session, Measured measured, long end)
            throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        while (System.nanoTime() < end) {
            for (int i = 0; i < BATCH; i++) {
                producer.send(message(session));
            }
            long before = System.nanoTime();
            session.commit();
            measured.latencies.add((System.nanoTime() - before) / 1e6);
            measured.messages += BATCH;
        }
    }

    /** The last message is sent synchronously, and so is answered after all others. */
    private void sendAsync(ActiveMQConnection connection, Session session, Measured measured, long end)
            throws Exception {
        connection.setUseAsyncSend(true);
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        while (System.nanoTime() < end) {
            producer.send(message(session));
            measured.messages++;
        }
        connection.setUseAsyncSend(false);
        connection.setAlwaysSyncSend(true);
        connection.setProducerWindowSize(0);
        session.createProducer(session.createQueue(queue)).send(message(session));
        measured.messages++;
    }

    private void fill(ActiveMQConnection connection, Session session, Measured measured, long end) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        for (int i = 1; i <= filled; i++) {
            producer.send(message(session));
            if (i % COMMITTED == 0) {
                session.commit();
            }
        }
    }

    private interface Acknowledging {
        void run(Session session, Message last) throws Exception;
    }

    private Work drain(int every, Acknowledging acknowledging) {
        return (connection, session, measured, end) -> {
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            while (measured.messages < filled && System.nanoTime() < end) {
                Message message = consumer.receive(60_000);
                measured.messages++;
                if (acknowledging != null && measured.messages % every == 0) {
                    acknowledging.run(session, message);
                }
            }
            if (acknowledging != null && every > 1 && session.getTransacted()) {
                session.commit();
            }
        };
    }

    private static BytesMessage message(Session session) throws Exception {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(BODY);
        return message;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            OpenWireLoad load = new OpenWireLoad(words[0], words[2], Double.parseDouble(words[3]));
            System.out.println(load.run(words[1]).json());
        }
        System.exit(0);
    }
}
