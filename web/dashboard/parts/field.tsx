import { type ComponentChildren, cloneElement, type VNode } from "preact";
import { useId } from "preact/hooks";

type FieldProps = { label: string; hint?: ComponentChildren; error?: string; children: VNode<{ id?: string }> };

/** A label, its control, and what is wrong with it. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, { id })}
      {hint !== undefined && <small class="quiet">{hint}</small>}
      {error !== undefined && (
        <small class="problem" role="alert">
          {error}
        </small>
      )}
    </div>
  );
}
