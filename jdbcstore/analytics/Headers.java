package jdbcstore;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/**
 * The headers that an archive stores, read from MSG where Spark has it: the walk of {@code envelope.py} over
 * one message of version 11, in the form in which ActiveMQ stores nearly every one. Null for any other, which
 * Python decodes. Written for Janino, which has no generic types here.
 */
public class Headers implements UDF1 {
    private static final String[] KINDS = {"message", "bytes", "map", "object", "stream", "text"};
    private static final String[] SCHEMES = {"queue://", "topic://", "temp-queue://", "temp-topic://"};
    private static final int FIRST_KIND = 23;
    private static final int FIRST_DESTINATION = 100;
    private static final int MESSAGE_ID = 110;
    private static final int PRODUCER_ID = 123;

    /** The headers of the messages in a column, as a struct of this type. */
    public Column of(Column messages, StructType type) {
        // Of what is deterministic Spark makes a copy for each use of a header.
        return functions.udf((UDF1) this, type).asNondeterministic().apply(new Column[] {messages});
    }

    public Object call(Object message) {
        if (message == null) {
            return null;
        }
        try {
            return new Walk((byte[]) message).headers();
        } catch (IndexOutOfBoundsException truncated) {
            return null;
        }
    }

    /** A position in one message, which every field that is read advances. */
    private static class Walk {
        private final byte[] data;
        private int place;
        /** Whether everything so far is as expected; what is read after that means nothing. */
        private boolean right = true;

        Walk(byte[] data) {
            this.data = data;
        }

        Row headers() {
            int size = integer();
            int kind = data[place++] - FIRST_KIND;
            require(size == data.length - 4 && kind >= 0 && kind < KINDS.length);
            if (!right) {
                return null;
            }
            place += 5; // command id, response required
            producer();
            destination(false);
            absent(); // transaction
            String original = destination(true);
            require(nested(MESSAGE_ID));
            skipString(); // the message id as a string
            producer();
            place += 16; // two sequences
            absent(); // original transaction
            skipString(); // group
            place += 4;
            String correlation = string();
            place += 10; // persistent, expiration, priority
            destination(false); // reply to
            long timestamp = number();
            String type = string();
            skipBytes(); // content
            skipBytes(); // properties
            absent(); // data structure
            absent(); // target consumer
            place++; // compressed
            int redeliveries = integer();
            absent(); // the brokers on its way
            place += 8; // arrival
            skipString(); // user
            place += 2; // received by a bridge, droppable
            absent(); // cluster
            long arrived = number();
            place += 9; // when it left the broker, first for its consumer
            if (!right || place != data.length) {
                return null;
            }
            return RowFactory.create(new Object[] {KINDS[kind], Long.valueOf(timestamp),
                Integer.valueOf(redeliveries), correlation, type, original, Long.valueOf(arrived)});
        }

        private void require(boolean condition) {
            right &= condition;
        }

        private boolean present() {
            byte value = data[place++];
            require(value == 0 || value == 1);
            return value == 1;
        }

        private void absent() {
            require(data[place++] == 0);
        }

        private boolean nested(int number) {
            boolean present = present();
            if (present) {
                require(data[place++] == number);
            }
            return present;
        }

        private int integer() {
            return (data[place++] << 24) | (data[place++] & 255) << 16 | (data[place++] & 255) << 8
                | (data[place++] & 255);
        }

        private long number() {
            return ((long) integer() << 32) | (integer() & 0xFFFFFFFFL);
        }

        private int length() {
            return (data[place++] & 255) << 8 | (data[place++] & 255);
        }

        private void skip(int size) {
            require(size >= 0 && size <= data.length - place);
            if (right) {
                place += size;
            }
        }

        private void skipString() {
            if (present()) {
                skip(length());
            }
        }

        private void skipBytes() {
            if (present()) {
                skip(integer());
            }
        }

        private String string() {
            return present() ? text(length()) : null;
        }

        private void producer() {
            if (nested(PRODUCER_ID)) {
                require(present());
                skip(length());
                place += 16;
            }
        }

        /** The qualified name, made only if it is wanted. */
        private String destination(boolean wanted) {
            if (!present()) {
                return null;
            }
            int kind = data[place++] - FIRST_DESTINATION;
            require(kind >= 0 && kind < SCHEMES.length);
            require(present());
            int size = length();
            int start = place;
            skip(size);
            if (!right) {
                return null;
            }
            // Python has rules for blanks around a name, for options and lists.
            boolean plain = size > 0 && data[start] > ' ' && data[start + size - 1] > ' ';
            for (int each = start; plain && each < start + size; each++) {
                plain = data[each] > 0 && data[each] != ',' && data[each] != '?';
            }
            if (plain) {
                return wanted ? SCHEMES[kind].concat(ascii(start, size)) : null;
            }
            place = start;
            String name = text(size);
            require(right && !name.isEmpty() && name.indexOf(',') < 0 && name.indexOf('?') < 0
                && name.charAt(0) > ' ' && name.charAt(name.length() - 1) > ' ');
            return right ? SCHEMES[kind].concat(name) : null;
        }

        private String ascii(int start, int size) {
            return new String(data, start, size, StandardCharsets.ISO_8859_1);
        }

        /** A string that Java, Python and Spark read alike: without NUL and characters beyond 16 bits. */
        private String text(int size) {
            int start = place;
            skip(size);
            if (!right) {
                return null;
            }
            boolean plain = true;
            for (int each = start; plain && each < start + size; each++) {
                plain = data[each] > 0;
            }
            if (plain) {
                return ascii(start, size);
            }
            String text = new String(data, start, size, StandardCharsets.UTF_8);
            for (int each = 0; each < text.length(); each++) {
                char value = text.charAt(each);
                require(value != 0 && value != 0xFFFD && !Character.isSurrogate(value));
            }
            return text;
        }
    }
}
