//! A template as instructions of the engine, with our operators in the place of the engine's.
//!
//! The engine's operators cannot be hooked, but each of them, and each building of a list or dict, takes from the stack and leaves
//! there just what a call of a function does. So they become calls, of functions whose names no template can spell.

use std::collections::BTreeMap;

use minijinja::machinery::{CodeGenerator, Instruction, Instructions, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error};

use crate::template::shape;

/// The names start so; no identifier of a template does.
pub(crate) const OPERATOR: &str = "operator ";

/// Blocks can be named, and are then a program of their own.
pub(crate) struct Program<'s> {
    main: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
}

impl<'s> Program<'s> {
    /// Compiles a template.
    pub(crate) fn compile(source: &'s str, syntax: &SyntaxConfig) -> Result<Self, Error> {
        shape::check_source(source, syntax)?;
        let tree = parse(source, "chat template", syntax.clone())?;
        shape::check_constants(&tree)?;
        let mut generator = CodeGenerator::new("chat template", source);
        generator.compile_stmt(&tree);
        let (mut main, mut blocks) = generator.finish();
        replace_operators(&mut main);
        blocks.values_mut().for_each(replace_operators);
        Ok(Self { main, blocks })
    }

    /// Runs it once.
    pub(crate) fn run(&'s self, env: &'s Environment<'s>, root: Value) -> Result<String, Error> {
        let mut text = String::new();
        eval(env, &self.main, root, &self.blocks, &mut make_string_output(&mut text), AutoEscape::None)?;
        Ok(text)
    }
}

fn replace_operators(instructions: &mut Instructions<'_>) {
    let mut at = 0;
    while let Some(instruction) = instructions.get_mut(at) {
        let (name, args) = match instruction {
            Instruction::Add => ("operator +", 2),
            Instruction::Mul => ("operator *", 2),
            Instruction::Rem => ("operator %", 2),
            Instruction::StringConcat => ("operator ~", 2),
            Instruction::Eq => ("operator ==", 2),
            Instruction::Ne => ("operator !=", 2),
            Instruction::Lt => ("operator <", 2),
            Instruction::Lte => ("operator <=", 2),
            Instruction::Gt => ("operator >", 2),
            Instruction::Gte => ("operator >=", 2),
            Instruction::In => ("operator in", 2),
            Instruction::Slice => ("operator [:]", 4),
            Instruction::BuildList(Some(items)) => ("operator []", *items),
            Instruction::BuildTuple(Some(items)) => ("operator ()", *items),
            Instruction::BuildMap(pairs) => ("operator {}", 2 * *pairs),
            _ => {
                at += 1;
                continue;
            }
        };
        // A call takes at most so many; a longer list is the template's own text, and so has its limit there.
        if let Ok(args) = u16::try_from(args) {
            *instruction = Instruction::CallFunction(name, Some(args));
        }
        at += 1;
    }
}
