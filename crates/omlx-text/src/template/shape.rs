//! What a template may look like before it is compiled.
//!
//! The engine parses and compiles by recursion, and computes constant expressions while it compiles, without fuel: a
//! chain of a hundred thousand `+` overflows the stack, and `[0] * 100000000`, a few times over, any memory. No real template
//! comes near these limits.

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind};

/// Operators, attributes, filters and brackets that one expression may nest.
const MAX_CHAIN: usize = 300;
/// `elif` branches of a template.
const MAX_BRANCHES: usize = 300;
/// Items of a list that is written as a constant times a constant.
const MAX_REPEATED: usize = 1000;

/// Where the template is too much; the engine's errors of our making have no line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}")]
struct TooMuch {
    line: usize,
}

/// The line of an error in the template, from 1; 0 when not known.
pub(crate) fn line(error: &Error) -> usize {
    let ours = std::error::Error::source(error).and_then(|source| source.downcast_ref::<TooMuch>());
    ours.map(|ours| ours.line).or(error.line()).unwrap_or(0)
}

/// Refuses what would overflow the stack of the parser or of the compiler.
pub(crate) fn check_source(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    let mut branches = 0;
    // links of the chain at each open bracket, and their sum
    let mut open = vec![0];
    let mut sum = 0;
    for token in tokenize(source, false, syntax.clone()) {
        let (token, span) = token?;
        let line = usize::from(span.start_line);
        let refuse = |reason| Err(Error::new(ErrorKind::SyntaxError, reason).with_source(TooMuch { line }));
        match token {
            Token::TemplateData(_) | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_) => {}
            Token::VariableStart | Token::VariableEnd | Token::BlockStart | Token::BlockEnd => {
                open = vec![0];
                sum = 0;
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                // it stays a link after it is closed: `f()()()`
                links(&mut open, &mut sum, 1);
                open.push(0);
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose if open.len() > 1 => {
                sum -= open.pop().unwrap_or(0);
            }
            Token::Comma => sum -= std::mem::take(open.last_mut().unwrap_or(&mut 0)),
            Token::Ident("elif") => branches += 1,
            Token::Ident(word) if !matches!(word, "and" | "or" | "not" | "is" | "if" | "in" | "else") => {}
            _ => links(&mut open, &mut sum, 1),
        }
        if sum > MAX_CHAIN {
            return refuse(format!("an expression of more than {MAX_CHAIN} nested parts"));
        }
        if branches > MAX_BRANCHES {
            return refuse(format!("more than {MAX_BRANCHES} elif branches"));
        }
    }
    Ok(())
}

fn links(open: &mut [usize], sum: &mut usize, more: usize) {
    if let Some(last) = open.last_mut() {
        *last += more;
        *sum += more;
    }
}

/// Refuses constants that the compiler would compute to a size out of all proportion.
pub(crate) fn check_constants(stmt: &Stmt<'_>) -> Result<(), Error> {
    let block = |stmts: &[Stmt<'_>]| stmts.iter().try_for_each(check_constants);
    match stmt {
        Stmt::Template(s) => block(&s.children),
        Stmt::EmitExpr(s) => expression(&s.expr),
        Stmt::ForLoop(s) => {
            expression(&s.iter)?;
            s.filter_expr.as_ref().map_or(Ok(()), expression)?;
            block(&s.body)?;
            block(&s.else_body)
        }
        Stmt::IfCond(s) => {
            expression(&s.expr)?;
            block(&s.true_body)?;
            block(&s.false_body)
        }
        Stmt::WithBlock(s) => {
            s.assignments.iter().try_for_each(|(_, value)| expression(value))?;
            block(&s.body)
        }
        Stmt::Set(s) => expression(&s.expr),
        Stmt::SetBlock(s) => {
            s.filter.as_ref().map_or(Ok(()), expression)?;
            block(&s.body)
        }
        Stmt::AutoEscape(s) => {
            expression(&s.enabled)?;
            block(&s.body)
        }
        Stmt::FilterBlock(s) => {
            expression(&s.filter)?;
            block(&s.body)
        }
        Stmt::Macro(s) => {
            s.defaults.iter().try_for_each(expression)?;
            block(&s.body)
        }
        Stmt::CallBlock(s) => {
            arguments(&s.call.args)?;
            s.macro_decl.defaults.iter().try_for_each(expression)?;
            block(&s.macro_decl.body)
        }
        Stmt::Do(s) => {
            expression(&s.call.expr)?;
            arguments(&s.call.args)
        }
        Stmt::Block(s) => block(&s.body),
        // no other templates can be named, and the rest holds no expressions
        _ => Ok(()),
    }
}

fn arguments(args: &[CallArg<'_>]) -> Result<(), Error> {
    args.iter().try_for_each(|arg| match arg {
        CallArg::Pos(value) | CallArg::Kwarg(_, value) | CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
            expression(value)
        }
    })
}

/// Children first: what they come to is then known to be small.
fn expression(expr: &Expr<'_>) -> Result<(), Error> {
    let some = |expr: &Option<Expr<'_>>| expr.as_ref().map_or(Ok(()), expression);
    match expr {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::Slice(e) => {
            expression(&e.expr)?;
            some(&e.start)?;
            some(&e.stop)?;
            some(&e.step)
        }
        Expr::UnaryOp(e) => expression(&e.expr),
        Expr::BinOp(e) => {
            expression(&e.left)?;
            expression(&e.right)?;
            if matches!(e.op, BinOpKind::Mul) { repeated(&e.left, &e.right, e.span().start_line) } else { Ok(()) }
        }
        Expr::Compare(e) => {
            expression(&e.expr)?;
            e.ops.iter().try_for_each(|op| expression(&op.expr))
        }
        Expr::IfExpr(e) => {
            expression(&e.test_expr)?;
            expression(&e.true_expr)?;
            some(&e.false_expr)
        }
        Expr::Filter(e) => {
            some(&e.expr)?;
            arguments(&e.args)
        }
        Expr::Test(e) => {
            expression(&e.expr)?;
            arguments(&e.args)
        }
        Expr::GetAttr(e) => expression(&e.expr),
        Expr::GetItem(e) => {
            expression(&e.expr)?;
            expression(&e.subscript_expr)
        }
        Expr::Call(e) => {
            expression(&e.expr)?;
            arguments(&e.args)
        }
        Expr::List(e) => e.items.iter().try_for_each(expression),
        Expr::Tuple(e) => e.items.iter().try_for_each(expression),
        Expr::Map(e) => e.keys.iter().chain(&e.values).try_for_each(expression),
    }
}

fn repeated(left: &Expr<'_>, right: &Expr<'_>, line: u16) -> Result<(), Error> {
    let (Some(left), Some(right)) = (left.as_const(), right.as_const()) else { return Ok(()) };
    for (list, times) in [(&left, &right), (&right, &left)] {
        if matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
            let items = list.len().unwrap_or(0).saturating_mul(times.as_usize().unwrap_or(0));
            if items > MAX_REPEATED {
                let reason = format!("a constant list of {items} items, at most {MAX_REPEATED} may be written so");
                return Err(Error::new(ErrorKind::SyntaxError, reason).with_source(TooMuch { line: line.into() }));
            }
        }
    }
    Ok(())
}
