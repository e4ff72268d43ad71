package jdbcstore;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Option;

/**
 * JDBC dialect that pushes down only expressions that mean exactly the same in this database as in Spark. Spark
 * evaluates the rest itself, on the remaining rows. It does not re-check what was pushed down, so everything that
 * is not known to be safe is refused: {@code pushdown.py} finds out what is.
 * Written for Janino, which supports neither lambdas nor the diamond operator.
 */
public class StoreDialect extends JdbcDialect {
    private static final String REPLACED = "\uFFFD";
    private static final int LONGEST_PATTERN = 1000;

    private final String prefix;
    /** Spark's own dialect for this vendor, for its types; null if it has none. */
    private final JdbcDialect types;
    private final Map settings;
    private final List texts;
    private final List wholes;

    public StoreDialect(String prefix, JdbcDialect types, Map settings, List texts, List wholes) {
        this.prefix = prefix;
        this.types = types;
        this.settings = settings;
        this.texts = texts;
        this.wholes = wholes;
    }

    public boolean canHandle(String url) {
        return url.startsWith(prefix);
    }

    public Option getCatalystType(int sqlType, String typeName, int size, MetadataBuilder metadata) {
        if (sqlType == Types.CHAR && size > 1) {
            return Option.apply(DataTypes.StringType); // Spark would pad every value, and compare it so
        }
        if (types != null) {
            return types.getCatalystType(sqlType, typeName, size, metadata);
        }
        // Every whole number of SQLite has up to 64 bits, whatever the column is declared as.
        boolean whole = sqlType == Types.BIGINT || sqlType == Types.INTEGER || sqlType == Types.SMALLINT;
        return whole ? Option.apply(DataTypes.LongType) : Option.empty();
    }

    /**
     * PostgreSQL's driver fetches in portions only within a transaction. Spark's own dialect says so too, but in
     * a method that Spark 4.2 renamed.
     */
    public void beforeFetch(Connection connection, scala.collection.immutable.Map options) {
        if (types != null && types.getClass().getSimpleName().equals("PostgresDialect")) {
            try {
                connection.setAutoCommit(false);
            } catch (SQLException closed) {
                throw new IllegalStateException(closed);
            }
        }
    }

    public String quoteIdentifier(String name) {
        String quote = setting("quote");
        return quote + name.replace(quote, quote + quote) + quote;
    }

    public boolean supportsLimit() {
        return true;
    }

    public Option compileExpression(Expression expression) {
        boolean aggregate = expression instanceof AggregateFunc;
        return Option.apply(aggregate ? aggregated((AggregateFunc) expression) : compiled(expression));
    }

    private String aggregated(AggregateFunc aggregate) {
        if (aggregate instanceof CountStar) {
            return "COUNT(*)";
        }
        if (aggregate instanceof Count) {
            Count count = (Count) aggregate;
            return call("COUNT", count.isDistinct(), value(count.column(), "exact"));
        }
        if (aggregate instanceof Sum) {
            Sum sum = (Sum) aggregate;
            return isWhole(sum.column()) ? call("SUM", sum.isDistinct(), value(sum.column(), "exact")) : null;
        }
        if (aggregate instanceof Min && is("computed")) {
            return call("MIN", false, value(((Min) aggregate).column(), "ordered"));
        }
        if (aggregate instanceof Max && is("computed")) {
            return call("MAX", false, value(((Max) aggregate).column(), "ordered"));
        }
        return null;
    }

    private static String call(String function, boolean distinct, String argument) {
        return argument == null ? null : function + "(" + (distinct ? "DISTINCT " : "") + argument + ")";
    }

    /** The expression in the database's SQL; null where it may mean something else. */
    private String compiled(Expression expression) {
        if (expression instanceof SortOrder) {
            return sorted((SortOrder) expression);
        }
        if (expression instanceof GeneralScalarExpression) {
            GeneralScalarExpression scalar = (GeneralScalarExpression) expression;
            String condition = condition(scalar.name(), scalar.children());
            return condition == null ? value(expression, "exact") : condition;
        }
        return expression instanceof NamedReference ? value(expression, "exact") : null;
    }

    private String sorted(SortOrder order) {
        String key = value(order.expression(), "ordered");
        if (key == null) {
            return null;
        }
        boolean ascending = order.direction().equals(SortDirection.ASCENDING);
        boolean first = order.nullOrdering().equals(NullOrdering.NULLS_FIRST);
        String sorted = key + (ascending ? " ASC" : " DESC");
        if (is("nulls")) {
            return sorted + (first ? " NULLS FIRST" : " NULLS LAST");
        }
        // A null is less than all others.
        return ascending == first ? sorted : "(" + key + " IS NULL)" + (first ? " DESC, " : " ASC, ") + sorted;
    }

    private String condition(String name, Expression[] of) {
        if (name.equals("AND") || name.equals("OR")) {
            return both(compiled(of[0]), name, compiled(of[1]));
        }
        if (name.equals("NOT")) {
            String condition = condition(of[0]);
            return condition == null ? null : "(NOT " + condition + ")";
        }
        if (name.equals("IS_NULL") || name.equals("IS_NOT_NULL")) {
            boolean column = of[0] instanceof NamedReference;
            return column ? "(" + quoted(of[0]) + (name.equals("IS_NULL") ? " IS NULL)" : " IS NOT NULL)") : null;
        }
        if (name.equals("ALWAYS_TRUE") || name.equals("ALWAYS_FALSE")) {
            return name.equals("ALWAYS_TRUE") ? "(1 = 1)" : "(1 = 0)";
        }
        if (name.equals("=") || name.equals("<>")) {
            return compared(name, of[0], of[1], "exact");
        }
        if (name.equals("<=>") && of[1] instanceof Literal) {
            return both(condition("IS_NOT_NULL", new Expression[] {of[0]}), "AND", condition("=", of));
        }
        if (name.equals("<") || name.equals("<=") || name.equals(">") || name.equals(">=")) {
            return compared(name, of[0], of[1], "ordered");
        }
        if (name.equals("IN")) {
            return among(of);
        }
        if (name.equals("STARTS_WITH") || name.equals("ENDS_WITH") || name.equals("CONTAINS")) {
            return matched(name, of[0], of[1]);
        }
        return null;
    }

    private String condition(Expression expression) {
        if (!(expression instanceof GeneralScalarExpression)) {
            return null;
        }
        GeneralScalarExpression scalar = (GeneralScalarExpression) expression;
        return condition(scalar.name(), scalar.children());
    }

    private static String both(String left, String operator, String right) {
        return left == null || right == null ? null : "(" + left + " " + operator + " " + right + ")";
    }

    private String compared(String operator, Expression left, Expression right, String how) {
        if (isWhole(left) != isWhole(right)) {
            return null;
        }
        String exactly = both(value(left, how), operator, value(right, how));
        return operator.equals("=") ? found(left, new Expression[] {right}, " = ", exactly) : exactly;
    }

    private String among(Expression[] of) {
        List values = new ArrayList();
        Expression[] literals = new Expression[of.length - 1];
        for (int place = 1; place < of.length; place++) {
            String value = of[place] instanceof Literal && isWhole(of[0]) == isWhole(of[place])
                ? value(of[place], "exact") : null;
            if (value == null) {
                return null;
            }
            values.add(value);
            literals[place - 1] = of[place];
        }
        String column = value(of[0], "exact");
        String exactly = column == null ? null : "(" + column + " IN (" + String.join(", ", values) + "))";
        return found(of[0], literals, " IN ", exactly);
    }

    private String matched(String name, Expression column, Expression sought) {
        String text = text(sought);
        String of = texts(column) ? value(column, "exact") : null;
        if (of == null || text == null || text.isEmpty() || text.length() > LONGEST_PATTERN) {
            return null;
        }
        boolean globs = is("globs");
        if (globs && name.equals("CONTAINS")) {
            return "(instr(" + of + ", " + literal(text) + ") > 0)";
        }
        String any = globs ? "*" : "%";
        String escaped = globs ? text.replaceAll("[\\[*?]", "[$0]") : text.replaceAll("[!%_]", "!$0");
        String before = name.equals("STARTS_WITH") ? "" : any;
        String behind = name.equals("ENDS_WITH") ? "" : any;
        String like = (globs ? " GLOB " : " LIKE ") + literal(before + escaped + behind) + (globs ? "" : " ESCAPE '!'");
        String exactly = "(" + of + like + ")";
        return name.equals("STARTS_WITH") && isIndexed(text) ? both("(" + quoted(column) + like + ")", "AND", exactly)
            : exactly;
    }

    /** Also the plain comparison, which uses the index and matches at least what the exact one does. */
    private String found(Expression column, Expression[] literals, String operator, String exactly) {
        if (exactly == null || !texts(column)) {
            return exactly;
        }
        List values = new ArrayList();
        for (Expression each : literals) {
            String text = text(each);
            if (text == null || !isIndexed(text)) {
                return exactly;
            }
            values.add(literal(text));
        }
        return both("(" + quoted(column) + operator + "(" + String.join(", ", values) + "))", "AND", exactly);
    }

    /** Whether the plain comparison may be added: characters beyond ASCII may not exist in the column. */
    private boolean isIndexed(String text) {
        return !setting("exact").equals("{}") && isAscii(text);
    }

    private static boolean isAscii(String text) {
        return StandardCharsets.US_ASCII.newEncoder().canEncode(text);
    }

    /** A string column, literal or CASE of literals, wrapped for an "exact" or "ordered" comparison. */
    private String value(Expression expression, String how) {
        if (expression instanceof NamedReference) {
            if (isWhole(expression)) {
                return quoted(expression);
            }
            return texts(expression) && !setting(how).isEmpty() ? in(setting(how), quoted(expression)) : null;
        }
        if (expression instanceof Literal) {
            Literal literal = (Literal) expression;
            if (isWhole(expression)) {
                return String.valueOf(literal.value());
            }
            String text = text(expression);
            return text == null || setting(how).isEmpty() ? null : in(setting(how), literal(text));
        }
        boolean choice = expression instanceof GeneralScalarExpression
            && ((GeneralScalarExpression) expression).name().equals("CASE_WHEN");
        if (!choice || !is("computed") || setting(how).isEmpty()) {
            return null;
        }
        // What is grouped by as it is may be ordered otherwise, and must be the same below that.
        String chosen = chosen(((GeneralScalarExpression) expression).children());
        return chosen == null || setting(how).equals(setting("exact")) ? chosen : in(setting(how), chosen);
    }

    private String chosen(Expression[] of) {
        StringBuilder choice = new StringBuilder("CASE");
        for (int place = 0; place < of.length; place += 2) {
            boolean last = place + 1 == of.length;
            Expression given = last ? of[place] : of[place + 1];
            String condition = last ? "" : condition(of[place]);
            String value = text(given) == null ? null : value(given, "exact");
            if (condition == null || value == null) {
                return null;
            }
            choice.append(last ? " ELSE " : " WHEN " + condition + " THEN ").append(value);
        }
        return choice.append(" END").toString();
    }

    private static String in(String template, String sql) {
        return template.replace("{}", sql);
    }

    private boolean texts(Expression expression) {
        return texts.contains(nameOf(expression));
    }

    private boolean isWhole(Expression expression) {
        if (expression instanceof Literal) {
            Literal literal = (Literal) expression;
            DataType type = literal.dataType();
            return literal.value() != null && (type.equals(DataTypes.LongType) || type.equals(DataTypes.IntegerType)
                || type.equals(DataTypes.ShortType) || type.equals(DataTypes.ByteType));
        }
        return wholes.contains(nameOf(expression));
    }

    private static String nameOf(Expression expression) {
        if (!(expression instanceof NamedReference) || ((NamedReference) expression).fieldNames().length != 1) {
            return "";
        }
        return ((NamedReference) expression).fieldNames()[0].toLowerCase(Locale.ROOT);
    }

    private String quoted(Expression column) {
        return quoteIdentifier(((NamedReference) column).fieldNames()[0]);
    }

    /** A string literal that can be pushed down; null if it is not one. */
    private String text(Expression expression) {
        if (!(expression instanceof Literal)) {
            return null;
        }
        Literal literal = (Literal) expression;
        if (literal.value() == null || !literal.dataType().equals(DataTypes.StringType)) {
            return null;
        }
        String text = literal.value().toString();
        // No database stores a string with NUL, and bytes that are not UTF-8 were read as something else.
        boolean known = text.indexOf('\0') < 0 && !text.contains(REPLACED);
        return known && (!is("ascii") || isAscii(text)) ? text : null;
    }

    private String literal(String text) {
        if (setting("literals").equals("hexadecimal")) {
            StringBuilder digits = new StringBuilder();
            for (byte each : text.getBytes(StandardCharsets.UTF_8)) {
                digits.append(Character.forDigit((each >> 4) & 15, 16)).append(Character.forDigit(each & 15, 16));
            }
            return "_utf8mb4 X'" + digits + "'";
        }
        String quoted = "'" + text.replace("'", "''") + "'";
        boolean escapes = setting("literals").equals("escaped") && text.indexOf('\\') >= 0;
        return escapes ? "E" + quoted.replace("\\", "\\\\") : quoted;
    }

    private String setting(String name) {
        return (String) settings.get(name);
    }

    private boolean is(String name) {
        return "yes".equals(setting(name));
    }
}
