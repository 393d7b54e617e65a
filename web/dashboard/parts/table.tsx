import type { ComponentChildren } from "preact";

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Hidden on narrow screens. */
  wide?: boolean;
  number?: boolean;
  /** Sentences, which may wrap. */
  prose?: boolean;
  /** A column of buttons, whose title is hidden visually. */
  actions?: boolean;
};

export type TableProps<Row> = {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
};

/** On narrow screens each row becomes a card with labelled values; see parts.css. */
export function Table<Row>({ label, rows, columns, id }: TableProps<Row>) {
  const classOf = ({ wide, number, prose, actions }: Column<Row>) =>
    [wide && "wide", number && "number", prose && "prose", actions && "acts"].filter(Boolean).join(" ");
  return (
    <div class="table-frame">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                <span class={column.actions ? "hidden" : ""}>{column.title}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) => (
                <td key={column.title} class={classOf(column)} data-title={column.actions ? undefined : column.title}>
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
