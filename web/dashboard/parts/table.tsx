import type { ComponentChildren } from "preact";

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Left out where the screen is narrow. */
  wide?: boolean;
  number?: boolean;
};

type TableProps<Row> = {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
};

export function Table<Row>({ label, rows, columns, id }: TableProps<Row>) {
  const classOf = ({ wide, number }: Column<Row>) => `${wide ? "wide" : ""} ${number ? "number" : ""}`.trim();
  return (
    <div class="table-frame">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) => (
                <td key={column.title} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
