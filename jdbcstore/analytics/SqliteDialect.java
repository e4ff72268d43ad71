package jdbcstore;

import java.sql.Types;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.jdbc.JdbcDialect;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Option;

/** What Spark has to know about SQLite. Written for Janino, which knows neither lambdas nor diamonds. */
public class SqliteDialect extends JdbcDialect {
    public boolean canHandle(String url) {
        return url.startsWith("jdbc:sqlite:");
    }

    /** Every whole number of SQLite has up to 64 bits, whatever the column is declared as. */
    public Option getCatalystType(int sqlType, String typeName, int size, MetadataBuilder metadata) {
        boolean whole = sqlType == Types.BIGINT || sqlType == Types.INTEGER || sqlType == Types.SMALLINT;
        return whole ? Option.apply(DataTypes.LongType) : Option.empty();
    }

    /** The driver takes every computed column for a number: no other aggregate may be pushed down. */
    public boolean isSupportedFunction(String name) {
        return name.equals("COUNT") || name.equals("SUM");
    }

    /** The same for what is computed without a function. */
    public Option compileExpression(Expression expression) {
        boolean text = expression instanceof GeneralScalarExpression
            && ((GeneralScalarExpression) expression).name().equals("CASE_WHEN");
        return text ? Option.empty() : super.compileExpression(expression);
    }

    public boolean supportsLimit() {
        return true;
    }
}
