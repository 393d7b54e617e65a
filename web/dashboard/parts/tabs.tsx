/** Tabs of a page, each with its own address. */
export function Tabs({ label, tabs }: { label: string; tabs: { href: string; title: string; here: boolean }[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ href, title, here }) => (
        <a key={href} href={href} aria-current={here ? "page" : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

type ChoiceProps<T extends string> = { label: string; value: T; onValue: (value: T) => void; options: readonly T[] };

/** A segmented control. */
export function Choice<T extends string>({ label, value, onValue, options }: ChoiceProps<T>) {
  return (
    <fieldset class="choice">
      <legend class="hidden">{label}</legend>
      {options.map((option) => (
        <label key={option}>
          <input type="radio" name={label} value={option} checked={option === value} onChange={() => onValue(option)} />
          <span>{option}</span>
        </label>
      ))}
    </fieldset>
  );
}
