import { CopyButton } from "./code.tsx";

/** An id on one line, with a button that copies it. */
export function Id({ children, label = "id" }: { children: string; label?: string }) {
  return (
    <span class="id">
      <code title={children}>{children}</code>
      <CopyButton text={children} label={label} />
    </span>
  );
}
