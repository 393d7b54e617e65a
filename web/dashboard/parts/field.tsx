import { type ComponentChildren, cloneElement, type VNode } from "preact";
import { useId } from "preact/hooks";

type Control = { id?: string; "aria-describedby"?: string; "aria-invalid"?: boolean };
type FieldProps = { label: string; hint?: ComponentChildren; error?: string; children: VNode<Control> };

/** A control with its label and error. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const noted = hint !== undefined || error !== undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, {
        id,
        ...(noted && { "aria-describedby": `${id}-note` }),
        ...(error !== undefined && { "aria-invalid": true }),
      })}
      {noted && (
        <div id={`${id}-note`}>
          {hint !== undefined && <small class="quiet">{hint}</small>}
          {error !== undefined && (
            <small class="problem" role="alert">
              {error}
            </small>
          )}
        </div>
      )}
    </div>
  );
}
